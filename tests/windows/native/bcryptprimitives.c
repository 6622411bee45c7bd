/* bcryptprimitives.dll, which Wine 8 lacks: the one function that Rust programs (py-rattler, uv, cryptography) take
 * from it, from the older interface to the same random numbers (RtlGenRandom). */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length)
{
    while (length > 0) {
        ULONG step = length > 0x10000000 ? 0x10000000 : (ULONG)length;
        if (!SystemFunction036(data, step))
            return FALSE;
        data += step;
        length -= step;
    }
    return TRUE;
}
