# Leaves out what Quern does not use of llama-cpp-python's build: llama.cpp's "common" library (argument parsing, chat
# parsers, downloads) is more than half of it. Their CMakeLists forces the cache entry on; a normal variable, set here
# right after their project() line, takes precedence over the entry (CMake policies CMP0126 and CMP0077).
set(LLAMA_BUILD_COMMON OFF)
