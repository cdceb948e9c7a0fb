; The Windows installer: for one person, without administrator's rights, and without any download.
;
; Compiled by packaging/windows_installer.py, which gives
;   PAYLOAD  the folder that PyInstaller made        OUTPUT  the installer to write
;   VERSION  as 0.1.0                                NUMBERS  the same as four numbers
;   ICON     quern.ico                               LICENSE  the licence to show
;   SIZE_KB  what the payload takes on the disk
; Installed over an older copy it replaces the program and leaves chats, settings and models, which lie elsewhere
; (%LOCALAPPDATA%\quern). Removing the program leaves them, too, unless the person asks otherwise.
; Without windows: Quern-Setup.exe /S [/D=folder], uninstall.exe /S [/DATA].

Unicode true
ManifestDPIAware true
ManifestSupportedOS all
SetCompressor /SOLID lzma
SetCompressorDictSize 64
RequestExecutionLevel user

!include "MUI2.nsh"
!include "x64.nsh"
!include "WinVer.nsh"
!include "FileFunc.nsh"

!define PROGRAM "Quern"
!define WINDOW "quern-window.exe"
!define PROG_ID "Quern.gguf"
!define UNINSTALL_KEY "Software\Microsoft\Windows\CurrentVersion\Uninstall\${PROGRAM}"
!define CAPABILITIES "Software\${PROGRAM}\Capabilities"

Name "${PROGRAM} ${VERSION}"
OutFile "${OUTPUT}"
InstallDir "$LOCALAPPDATA\Programs\${PROGRAM}"
InstallDirRegKey HKCU "${UNINSTALL_KEY}" "InstallLocation"
BrandingText " "
ShowInstDetails nevershow
ShowUninstDetails nevershow

VIProductVersion "${NUMBERS}"
VIAddVersionKey "ProductName" "${PROGRAM}"
VIAddVersionKey "ProductVersion" "${VERSION}"
VIAddVersionKey "FileVersion" "${VERSION}"
VIAddVersionKey "FileDescription" "${PROGRAM} Setup"
VIAddVersionKey "LegalCopyright" "MIT"

!define MUI_ICON "${ICON}"
!define MUI_UNICON "${ICON}"
!define MUI_ABORTWARNING
!define MUI_LANGDLL_ALLLANGUAGES
!define MUI_LANGDLL_REGISTRY_ROOT HKCU
!define MUI_LANGDLL_REGISTRY_KEY "${UNINSTALL_KEY}"
!define MUI_LANGDLL_REGISTRY_VALUENAME "Language"
!define MUI_FINISHPAGE_RUN "$INSTDIR\${WINDOW}"

!insertmacro MUI_PAGE_LICENSE "${LICENSE}"
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_COMPONENTS
!insertmacro MUI_PAGE_INSTFILES
!insertmacro MUI_PAGE_FINISH
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE "English"
!insertmacro MUI_LANGUAGE "SimpChinese"

LangString RUNNING ${LANG_ENGLISH} "Quern is running. Close it, then press Retry."
LangString RUNNING ${LANG_SIMPCHINESE} "Quern 正在运行。请先关闭它，然后按“重试”。"
LangString TOO_OLD ${LANG_ENGLISH} "Quern needs 64-bit Windows 10 or newer."
LangString TOO_OLD ${LANG_SIMPCHINESE} "Quern 需要 64 位的 Windows 10 或更新版本。"
LangString FOREIGN ${LANG_ENGLISH} "$INSTDIR holds other files. Choose an empty folder, or one that Quern was installed in."
LangString FOREIGN ${LANG_SIMPCHINESE} "$INSTDIR 中有其他文件。请选择空文件夹，或安装过 Quern 的文件夹。"
LangString DELETE_DATA ${LANG_ENGLISH} "Delete your chats, settings and models as well?$\r$\n$\r$\n$LOCALAPPDATA\quern"
LangString DELETE_DATA ${LANG_SIMPCHINESE} "是否同时删除你的对话、设置和模型？$\r$\n$\r$\n$LOCALAPPDATA\quern"
LangString GGUF ${LANG_ENGLISH} "Language model (GGUF)"
LangString GGUF ${LANG_SIMPCHINESE} "语言模型 (GGUF)"
LangString PART_PROGRAM ${LANG_ENGLISH} "Quern"
LangString PART_PROGRAM ${LANG_SIMPCHINESE} "Quern"
LangString PART_MENU ${LANG_ENGLISH} "Start menu"
LangString PART_MENU ${LANG_SIMPCHINESE} "开始菜单"
LangString PART_DESKTOP ${LANG_ENGLISH} "Icon on the desktop"
LangString PART_DESKTOP ${LANG_SIMPCHINESE} "桌面图标"
LangString PART_FILES ${LANG_ENGLISH} "Offer Quern for .gguf files"
LangString PART_FILES ${LANG_SIMPCHINESE} "用 Quern 打开 .gguf 文件"

; Waits until no program of an older copy is in use: Windows refuses to open such a file for writing.
!macro WAIT_UNTIL_CLOSED FILE
  !define UNIQUE ${__LINE__}
  again_${UNIQUE}:
  IfFileExists "$INSTDIR\${FILE}" 0 closed_${UNIQUE}
  ClearErrors
  FileOpen $0 "$INSTDIR\${FILE}" a
  IfErrors 0 free_${UNIQUE}
  MessageBox MB_RETRYCANCEL|MB_ICONEXCLAMATION "$(RUNNING)" /SD IDCANCEL IDRETRY again_${UNIQUE}
  SetErrorLevel 3
  Quit
  free_${UNIQUE}:
  FileClose $0
  closed_${UNIQUE}:
  !undef UNIQUE
!macroend

; Only what an installation made is ever removed by name; a folder that holds anything else stays.
!macro REMOVE_PROGRAM
  RMDir /r "$INSTDIR\_internal"
  Delete "$INSTDIR\quern.exe"
  Delete "$INSTDIR\${WINDOW}"
  Delete "$INSTDIR\LICENSE.txt"
  Delete "$INSTDIR\uninstall.exe"
!macroend

Function .onInit
  ${IfNot} ${RunningX64}
  ${OrIfNot} ${AtLeastWin10}
    MessageBox MB_OK|MB_ICONSTOP "$(TOO_OLD)" /SD IDOK
    SetErrorLevel 2
    Quit
  ${EndIf}
  SetRegView 64
  !insertmacro MUI_LANGDLL_DISPLAY
FunctionEnd

Function un.onInit
  SetRegView 64
  !insertmacro MUI_UNGETLANGUAGE
FunctionEnd

Section "$(PART_PROGRAM)" SectionProgram
  SectionIn RO
  ${DirState} "$INSTDIR" $1
  ${If} $1 == 1
  ${AndIfNot} ${FileExists} "$INSTDIR\${WINDOW}"
    MessageBox MB_OK|MB_ICONSTOP "$(FOREIGN)" /SD IDOK
    SetErrorLevel 2
    Abort "$(FOREIGN)"
  ${EndIf}
  !insertmacro WAIT_UNTIL_CLOSED "quern.exe"
  !insertmacro WAIT_UNTIL_CLOSED "${WINDOW}"
  !insertmacro REMOVE_PROGRAM
  SetOutPath "$INSTDIR"
  File /r "${PAYLOAD}\*.*"
  File "/oname=LICENSE.txt" "${LICENSE}"
  WriteUninstaller "$INSTDIR\uninstall.exe"

  WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayName" "${PROGRAM}"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayVersion" "${VERSION}"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayIcon" "$INSTDIR\${WINDOW}"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "InstallLocation" "$INSTDIR"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "UninstallString" '"$INSTDIR\uninstall.exe"'
  WriteRegStr HKCU "${UNINSTALL_KEY}" "QuietUninstallString" '"$INSTDIR\uninstall.exe" /S'
  WriteRegDWORD HKCU "${UNINSTALL_KEY}" "EstimatedSize" ${SIZE_KB}
  WriteRegDWORD HKCU "${UNINSTALL_KEY}" "NoModify" 1
  WriteRegDWORD HKCU "${UNINSTALL_KEY}" "NoRepair" 1
  WriteRegStr HKCU "Software\Microsoft\Windows\CurrentVersion\App Paths\quern.exe" "" "$INSTDIR\quern.exe"
SectionEnd

Section "$(PART_MENU)" SectionMenu
  CreateShortcut "$SMPROGRAMS\${PROGRAM}.lnk" "$INSTDIR\${WINDOW}"
SectionEnd

Section /o "$(PART_DESKTOP)" SectionDesktop
  CreateShortcut "$DESKTOP\${PROGRAM}.lnk" "$INSTDIR\${WINDOW}"
SectionEnd

; Quern is one of the programs offered for .gguf files. What the person chose for them before stays chosen.
Section "$(PART_FILES)" SectionFiles
  WriteRegStr HKCU "Software\Classes\${PROG_ID}" "" "$(GGUF)"
  WriteRegStr HKCU "Software\Classes\${PROG_ID}\DefaultIcon" "" "$INSTDIR\${WINDOW},0"
  WriteRegStr HKCU "Software\Classes\${PROG_ID}\shell\open\command" "" '"$INSTDIR\${WINDOW}" "%1"'
  WriteRegStr HKCU "Software\Classes\.gguf\OpenWithProgids" "${PROG_ID}" ""
  WriteRegStr HKCU "${CAPABILITIES}" "ApplicationName" "${PROGRAM}"
  WriteRegStr HKCU "${CAPABILITIES}\FileAssociations" ".gguf" "${PROG_ID}"
  WriteRegStr HKCU "Software\RegisteredApplications" "${PROGRAM}" "${CAPABILITIES}"
  ${RefreshShellIcons}
SectionEnd

Section "Uninstall"
  !insertmacro WAIT_UNTIL_CLOSED "quern.exe"
  !insertmacro WAIT_UNTIL_CLOSED "${WINDOW}"
  !insertmacro REMOVE_PROGRAM
  SetOutPath "$TEMP"
  RMDir "$INSTDIR"
  Delete "$SMPROGRAMS\${PROGRAM}.lnk"
  Delete "$DESKTOP\${PROGRAM}.lnk"
  DeleteRegKey HKCU "${UNINSTALL_KEY}"
  DeleteRegKey HKCU "Software\Microsoft\Windows\CurrentVersion\App Paths\quern.exe"
  DeleteRegKey HKCU "Software\Classes\${PROG_ID}"
  DeleteRegValue HKCU "Software\Classes\.gguf\OpenWithProgids" "${PROG_ID}"
  DeleteRegValue HKCU "Software\RegisteredApplications" "${PROGRAM}"
  DeleteRegKey HKCU "Software\${PROGRAM}"
  ${RefreshShellIcons}

  ${GetParameters} $0
  ClearErrors
  ${GetOptions} $0 "/DATA" $1
  IfErrors 0 delete_data
  MessageBox MB_YESNO|MB_ICONQUESTION|MB_DEFBUTTON2 "$(DELETE_DATA)" /SD IDNO IDYES delete_data
  Goto done
  delete_data:
  RMDir /r "$LOCALAPPDATA\quern"
  done:
SectionEnd
