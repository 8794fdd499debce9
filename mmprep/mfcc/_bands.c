/* Frames of a signal -> powers in bands: window, real transform, weights, in one pass.

Rules
-----
- Eight frames of float32, or four of float64, lie side by side in vectors of 32 bytes, and all
  that is touched for them (48 KiB at a transform of 1024) stays in the nearest cache.
- The transform of n real numbers is the one of n / 2 complex ones, in place; its bins come out in
  the order of their digits to base four, which the plan names, and are taken from there.
- No sum depends on the processor's vectors, and none is contracted: compiled for AVX2 or for none,
  a frame gives the same bits.
*/

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64
#define LANE_BYTES 32
#define MOST_SAMPLES (1 << 20) /* of a transform */

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES
#endif
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors pass between clones of one file only */

#define REAL float
#define VEC VectorOfFloats
#define LANES (LANE_BYTES / (int)sizeof(float))
#define NAME(name) name##_f
#include "_bands.h"
#undef REAL
#undef VEC
#undef LANES
#undef NAME

#define REAL double
#define VEC VectorOfDoubles
#define LANES (LANE_BYTES / (int)sizeof(double))
#define NAME(name) name##_d
#include "_bands.h"

typedef struct {
    Py_buffer signal, window, turns, order, first, length, weights, energies, out;
    Py_ssize_t offset, hop, n_frames;
    int is_double, removes_mean;
    double preemph;
} Call;

static int is_power_of_two(Py_ssize_t n) { return n > 0 && (n & (n - 1)) == 0; }

/* Say what is wrong with the sizes; NULL if nothing. */
static const char *fault(const Call *call, Py_ssize_t n_win, Py_ssize_t n_fft, Py_ssize_t n_bands) {
    const Py_ssize_t size = call->is_double ? sizeof(double) : sizeof(float);
    if (!is_power_of_two(n_fft) || n_fft < 4 || n_fft > MOST_SAMPLES || n_win < 1 || n_win > n_fft)
        return "no transform of this length";
    if (call->offset < 0 || call->hop < 1 || call->n_frames < 1 ||
        call->n_frames > PY_SSIZE_T_MAX / 8 / call->hop)
        return "no frames";
    const Py_ssize_t end = call->offset + (call->n_frames - 1) * call->hop + n_win;
    if (end > call->signal.len / (Py_ssize_t)sizeof(float))
        return "frames beyond the signal";
    if (call->order.len != n_fft / 2 * (Py_ssize_t)sizeof(int32_t) ||
        call->length.len != call->first.len)
        return "a plan of other lengths";
    if (n_bands < 1 || call->out.len / (Py_ssize_t)sizeof(float) / n_bands != call->n_frames ||
        (call->energies.len && call->energies.len / (Py_ssize_t)sizeof(float) != call->n_frames))
        return "no room for the result";
    const int32_t *order = call->order.buf, *first = call->first.buf, *length = call->length.buf;
    for (Py_ssize_t k = 0; k < n_fft / 2; k++)
        if (order[k] < 0 || order[k] >= n_fft / 2)
            return "an order beyond the transform";
    Py_ssize_t n_weights = 0;
    for (Py_ssize_t band = 0; band < n_bands; band++) {
        if (first[band] < 0 || length[band] < 0 || first[band] + (Py_ssize_t)length[band] > n_fft / 2 + 1)
            return "a band beyond the transform";
        n_weights += length[band];
    }
    return n_weights == call->weights.len / size ? NULL : "other weights than bands";
}

#define TASK(name, real)                                                                           \
    Task##name task = {(const float *)call.signal.buf + call.offset,                               \
                       call.n_frames,                                                              \
                       call.hop,                                                                   \
                       n_win,                                                                      \
                       n_fft,                                                                      \
                       n_bands,                                                                    \
                       call.window.buf,                                                            \
                       call.turns.buf,                                                             \
                       call.weights.buf,                                                           \
                       call.order.buf,                                                             \
                       call.first.buf,                                                             \
                       call.length.buf,                                                            \
                       call.removes_mean,                                                          \
                       (real)call.preemph,                                                         \
                       call.energies.len ? call.energies.buf : NULL,                               \
                       call.out.buf};                                                              \
    is_done = run##name(&task)

static PyObject *bands(PyObject *Py_UNUSED(module), PyObject *args) {
    Call call = {0};
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*nnny*y*y*y*y*y*ppdw*w*", &call.signal, &call.offset, &call.hop,
                          &call.n_frames, &call.window, &call.turns, &call.order, &call.first,
                          &call.length, &call.weights, &call.is_double, &call.removes_mean,
                          &call.preemph, &call.energies, &call.out))
        return NULL;
    const Py_ssize_t size = call.is_double ? sizeof(double) : sizeof(float);
    const Py_ssize_t n_win = call.window.len / size, n_fft = call.turns.len / size / 2,
                     n_bands = call.first.len / (Py_ssize_t)sizeof(int32_t);
    const char *wrong = fault(&call, n_win, n_fft, n_bands);
    if (wrong) {
        PyErr_SetString(PyExc_ValueError, wrong);
    } else {
        int is_done;
        Py_BEGIN_ALLOW_THREADS;
        if (call.is_double) {
            TASK(_d, double);
        } else {
            TASK(_f, float);
        }
        Py_END_ALLOW_THREADS;
        result = is_done ? Py_NewRef(Py_None) : PyErr_NoMemory();
    }
    Py_buffer *buffers[] = {&call.signal, &call.window,  &call.turns,    &call.order, &call.first,
                            &call.length, &call.weights, &call.energies, &call.out};
    for (size_t k = 0; k < sizeof(buffers) / sizeof(*buffers); k++)
        PyBuffer_Release(buffers[k]);
    return result;
}

static PyMethodDef METHODS[] = {
    {"bands", bands, METH_VARARGS,
     "bands(signal, offset, hop, n_frames, window, turns, order, first, length, weights,"
     " is_double, removes_mean, preemph, energies, out)"},
    {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot SLOTS[] = {{0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_bands", "Frames of a signal -> powers in bands.", 0, METHODS, SLOTS,
    NULL,                  NULL,     NULL};

PyMODINIT_FUNC PyInit__bands(void) { return PyModuleDef_Init(&MODULE); }
