/* python.exe: the interpreter of python311.dll, on this command line. */
#include <wchar.h>

__declspec(dllimport) int Py_Main(int argc, wchar_t **argv);

int wmain(int argc, wchar_t **argv)
{
    return Py_Main(argc, argv);
}
