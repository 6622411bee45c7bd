/* Scripts\python.exe of a venv: runs the python.exe of the `home` that pyvenv.cfg names, which finds the venv by
 * __PYVENV_LAUNCHER__ (getpath.py of CPython 3.11). venv copies this file from the folder of python.exe. */
#include <stdio.h>
#include <string.h>
#include <wchar.h>
#include <windows.h>

enum { LIMIT = 4096 };

/* The value of `home = ...` in UTF-8 text; empty if there is none. */
static void find_home(FILE *file, wchar_t *home)
{
    char line[LIMIT];
    home[0] = 0;
    while (fgets(line, sizeof line, file)) {
        char *value = strchr(line, '=');
        if (strncmp(line, "home", 4) == 0 && value) {
            value += 1 + strspn(value + 1, " ");
            value[strcspn(value, "\r\n")] = 0;
            MultiByteToWideChar(CP_UTF8, 0, value, -1, home, LIMIT);
            return;
        }
    }
}

/* What follows the program's own name. */
static wchar_t *arguments(wchar_t *line)
{
    int quoted = 0;
    while (*line && (quoted || (*line != L' ' && *line != L'\t')))
        quoted ^= *line++ == L'"';
    return line;
}

/* The child of the same console handles Ctrl-C; its exit code is passed on. */
static BOOL WINAPI ignore_control(DWORD event)
{
    return event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT;
}

int wmain(void)
{
    static wchar_t self[LIMIT], config[LIMIT + 32], home[LIMIT], command[32768];
    STARTUPINFOW startup = {.cb = sizeof startup};
    PROCESS_INFORMATION child;
    DWORD code = 1;
    wchar_t *end;
    FILE *file;
    HANDLE job;
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};

    GetModuleFileNameW(NULL, self, LIMIT);
    wcscpy(config, self);
    for (int up = 0; up < 2 && (end = wcsrchr(config, L'\\')); up++)
        *end = 0;
    wcscat(config, L"\\pyvenv.cfg");
    file = _wfopen(config, L"rb");
    if (file) {
        find_home(file, home);
        fclose(file);
    }
    if (!file || !home[0]) {
        fprintf(stderr, "no home in pyvenv.cfg\n");
        return 106;
    }
    SetEnvironmentVariableW(L"__PYVENV_LAUNCHER__", self);
    swprintf(command, 32768, L"\"%ls\\python.exe\"%ls", home, arguments(GetCommandLineW()));
    SetConsoleCtrlHandler(ignore_control, TRUE);
    GetStartupInfoW(&startup);
    if (!CreateProcessW(NULL, command, NULL, NULL, TRUE, CREATE_SUSPENDED, NULL, NULL, &startup, &child)) {
        fprintf(stderr, "cannot start the interpreter: error %lu\n", GetLastError());
        return 101;
    }
    /* The interpreter ends when this process is killed, as with CPython's launcher. */
    job = CreateJobObjectW(NULL, NULL);
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK;
    SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
    AssignProcessToJobObject(job, child.hProcess);
    ResumeThread(child.hThread);
    WaitForSingleObject(child.hProcess, INFINITE);
    GetExitCodeProcess(child.hProcess, &code);
    return (int)code;
}
