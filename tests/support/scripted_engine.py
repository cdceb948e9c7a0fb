"""An engine process that plays a part: speaks the real protocol, answers from a script, and fails on demand.

    EngineClient(places, command=lambda: scripted_engine.command(crash_at=3, crash_how="SIGILL"))

What happens is decided by a JSON object in the first argument; the fields of `Script` say what can be asked for.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Script:
    """How the engine behaves. Times are seconds."""

    reply: str = "The capital of France is Paris."
    thoughts: str = ""  # what it thinks before each answer, in one piece
    echo: bool = False  # answers with the last message in place of the reply, so that answers can be told apart
    delay: float = 0.0  # before each token
    endless: bool = False  # the reply again and again, until Stop
    prompt_steps: int = 0  # how many PromptProgress events precede the text
    crash_at: int = -1  # dies before this token of every answer
    crash_how: str = "SIGKILL"  # a signal's name, "abort", or "exit 3"
    crash_once: str = ""  # a path: dies only while this file does not exist, and makes it first
    deaf: bool = False  # ignores Stop
    immortal: bool = False  # ignores the end of stdin as well
    garbage: tuple[str, ...] = ()  # lines printed between the events
    messages: tuple[str, ...] = ()  # lines written to stderr before the first token
    load_seconds: float = 0.0
    load_crash: str = ""  # as `crash_how`, while loading
    load_error: str = ""  # a title: loading is refused with it
    refuse: str = ""  # the code of an error that measuring foretells
    fail_code: str = "scripted"
    fail_once: bool = False  # later answers are given
    trained: int = 0  # tokens of the context that the model was made for
    fail: str = ""  # a title: every answer is refused with it after `crash_at` tokens, or at once
    start_crash: str = ""  # as `crash_how`, before Hello
    version: int = 1
    template: bool = True  # whether the model says that it has a chat template
    replaces: int = 0  # how many characters the first text of a continued answer takes the place of
    huge: int = 0  # one token of this many characters
    save_seconds: float = 0.0  # how long saving a state takes
    used: int = 0  # tokens of the context in use after an answer
    obedient: bool = False  # a JSON object at the end of the message that is answered changes the script for it
    context: int = 4096  # tokens that the context holds
    trims: tuple[int, ...] = ()  # positions that are left out of every prompt
    log: str = ""  # a file that gets a line for each command received: its type and what matters of it


def command(**changes: Any) -> list[str]:
    """Returns the command line that starts this engine with a script."""
    return [sys.executable, str(Path(__file__).resolve()), json.dumps(asdict(Script(**changes)))]


def tokens(text: str) -> list[str]:
    """Returns the pieces in which a text is streamed: words with the space before them."""
    words = text.split(" ")
    return [words[0], *(f" {word}" for word in words[1:])]


class ScriptedEngine:
    """Reads commands on a thread, as the real engine does, and plays the script on the main one."""

    def __init__(self, script: Script) -> None:
        self._script = self._usual = script
        self._work: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._stopped: set[int] = set()
        self._loaded = self._failed = False
        self._lock = threading.Lock()

    def run(self) -> None:
        if self._script.start_crash:
            die(self._script.start_crash)
        self._send("hello", 0, version=self._script.version, pid=os.getpid())
        threading.Thread(target=self._read, daemon=True).start()
        while (item := self._work.get()) is not None:
            self._carry_out(item)
        while self._script.immortal:
            time.sleep(0.05)

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            item = json.loads(line)
            self._note(item)
            if item["type"] == "stop":
                if not self._script.deaf:
                    self._stopped.add(item["id"])
            elif item["type"] == "tokenize":
                pieces = tokens(item["text"])
                self._send("tokenized", item["id"], ids=list(range(len(pieces))), pieces=pieces)
            elif item["type"] == "count_tokens":
                texts = [item.get("prompt") or "", *(message["content"] for message in item.get("messages", ()))]
                self._send("tokens_counted", item["id"], total=sum(len(text.split()) for text in texts))
            elif item["type"] == "measure_context":
                self._measure(item)
            else:
                self._work.put(item)
        if not self._script.immortal:
            os._exit(0)

    def _measure(self, item: dict[str, Any]) -> None:
        """Answers as an engine would whose tokens are words, whose template writes none, and which has read all."""
        messages, room = item["request"].get("messages", []), self._script.context
        counts = [len(message["content"].split()) for message in messages]
        pinned = item["request"].get("pinned", [])
        gone: list[int] = []
        for at in range(len(messages) - 1):
            if sum(counts) - sum(counts[known] for known in gone) > room and at not in pinned:
                gone.append(at)
        total = sum(counts) - sum(counts[at] for at in gone)
        fields: dict[str, Any] = {"tokens": counts, "reused": counts, "total": total, "cached": total}
        fields["context_length"] = room
        if self._script.refuse:
            fields["error"] = {"title": "It would be refused.", "code": self._script.refuse}
        following = [at for at in range(len(messages) - 1) if at not in (*gone, *pinned)][:1]
        self._send("context_measured", item["id"], dropped=gone, next=following, held=pinned, reserve=8, **fields)

    def _note(self, item: dict[str, Any]) -> None:
        if self._script.log:
            messages = item.get("request", {}).get("messages", ())
            said = " | ".join(f"{m['role']}: {m['content']}" for m in messages)
            detail = item.get("path") or said or item.get("request", {}).get("prompt", "")
            with open(self._script.log, "a", encoding="utf-8") as file:
                file.write(f"{item['type']} {detail}\n")

    def _carry_out(self, item: dict[str, Any]) -> None:
        match item["type"]:
            case "load":
                self._load(item)
            case "generate":
                self._generate(item)
            case "save_state":
                time.sleep(self._script.save_seconds)
                Path(item["path"]).write_bytes(b"state")
                self._send("state_saved", item["id"], tokens=1200, size_bytes=5)
            case "load_state":
                tokens_held = 1200 if Path(item["path"]).exists() else 0
                self._send("state_loaded", item["id"], tokens=tokens_held)
            case "unload":
                self._loaded = False
                self._send("unloaded", item["id"])

    def _load(self, item: dict[str, Any]) -> None:
        if self._script.load_crash:
            die(self._script.load_crash)
        for step in range(10 if self._script.load_seconds else 0):
            time.sleep(self._script.load_seconds / 10)
            self._send("load_progress", item["id"], fraction=step / 10)
            if item["id"] in self._stopped:
                self._fail(item["id"], "Loading was stopped.")
                return
        if self._script.load_error:
            self._fail(item["id"], self._script.load_error)
            return
        self._loaded = True
        name = Path(item["path"]).stem
        info = {"engine": "scripted", "path": item["path"], "name": name, "has_template": self._script.template,
                "context_length": self._script.context, "trained_context": self._script.trained}
        self._send("loaded", item["id"], info=info)

    def _generate(self, item: dict[str, Any]) -> None:
        if not self._loaded:
            self._fail(item["id"], "No model is loaded.")
            return
        if self._usual.obedient:
            self._script = replace(self._usual, **_told(item["request"]))
        for done in range(self._script.prompt_steps):
            self._send("prompt_progress", item["id"], done=done + 1, total=self._script.prompt_steps)
        if trims := [at for at in self._script.trims if at < len(item["request"]["messages"]) - 1]:
            self._send("context_trimmed", item["id"], dropped=trims)
        if self._script.thoughts:
            self._send("text", item["id"], text=self._script.thoughts, n_tokens=1, reasoning=True)
        written = 0
        for token in self._reply(item):
            if self._must_fail(item["id"], written):
                return
            time.sleep(self._script.delay)
            if item["id"] in self._stopped:
                break
            written += 1
            replaces = self._script.replaces if written == 1 and item["request"].get("continue_last") else 0
            self._send("text", item["id"], text=token, n_tokens=written, replaces=replaces)
        if not self._must_fail(item["id"], written):
            reason = "stopped" if item["id"] in self._stopped else "end"
            usage = {"prompt_tokens": 5, "evaluated_tokens": 5, "generated_tokens": written}
            usage["context_used"] = self._script.used
            self._send("finished", item["id"], reason=reason, usage=usage, seed=42)

    def _reply(self, item: dict[str, Any]) -> Iterator[str]:
        last = item["request"]["messages"][-1]["content"] if item["request"].get("messages") else ""
        reply = last if self._script.echo else self._script.reply
        if self._script.huge:
            yield "x" * self._script.huge
        yield from tokens(reply) if reply else ()
        while self._script.endless:
            yield from tokens(" " + reply)

    def _must_fail(self, id: int, written: int) -> bool:
        """Dies or refuses where the script says so; returns whether the answer is closed by that."""
        if written != max(self._script.crash_at, 0):
            return False
        for line in self._script.garbage:
            self._raw(line.encode("utf-8", "surrogateescape"))
        for message in self._script.messages:
            sys.stderr.write(message + "\n")
            sys.stderr.flush()
        if self._script.fail and not (self._script.fail_once and self._failed):
            self._failed = True
            self._fail(id, self._script.fail, self._script.fail_code)
            return True
        if self._script.crash_at >= 0 and self._may_crash():
            die(self._script.crash_how)
        return False

    def _may_crash(self) -> bool:
        if not self._script.crash_once:
            return True
        mark = Path(self._script.crash_once)
        if mark.exists():
            return False
        mark.touch()
        return True

    def _fail(self, id: int, title: str, code: str = "scripted") -> None:
        self._send("failed", id, error={"title": title, "code": code})

    def _send(self, type: str, id: int, **fields: Any) -> None:
        self._raw(json.dumps({"type": type, "id": id, **fields}).encode())

    def _raw(self, line: bytes) -> None:
        with self._lock:
            try:
                sys.stdout.buffer.write(line + b"\n")
                sys.stdout.buffer.flush()
            except BrokenPipeError:  # the window is gone; on the reading thread nobody else would notice
                if not self._script.immortal:
                    os._exit(0)


def _told(request: dict[str, Any]) -> dict[str, Any]:
    """Returns what the last message of the person asks for, in braces at its end."""
    asked = [message["content"] for message in request.get("messages") or () if message["role"] == "user"]
    at = asked[-1].find(" {") if asked else -1
    return dict(json.loads(asked[-1][at:])) if at >= 0 else {}


def die(how: str) -> None:
    """Ends this process the way a native library would."""
    if how == "abort":
        os.abort()
    if how.startswith("exit "):
        os._exit(int(how.removeprefix("exit ")))
    number = getattr(signal, how)
    if number != getattr(signal, "SIGKILL", None) and signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)  # below nohup, SIGHUP is ignored by all children
    os.kill(os.getpid(), number)
    time.sleep(10)


if __name__ == "__main__":
    import resource  # Unix only, as are the signals this engine dies of

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a test that dies on purpose leaves no core file
    given = json.loads(sys.argv[1])
    ScriptedEngine(Script(**{**given, "garbage": tuple(given["garbage"]), "messages": tuple(given["messages"])})).run()
