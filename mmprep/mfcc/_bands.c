/* Frames of a signal -> powers in bands: window, real transform, weights, in one pass.

Rules
-----
- Four frames lie side by side in vectors of 32 bytes, and all that is touched for them (48 KiB at
  a transform of 1024) stays in the nearest cache.
- All is float64: float32 leaves noise 140 dB below a frame's loudest bin, which shows where a band
  as low as that is kept, or where the loudest bin is in no band.
- The transform of n real numbers is the one of n / 2 complex ones, in place; its bins come out in
  the order of their digits to base four, which the plan names, and are taken from there.
- What a frame gives depends on nothing beside it. No sum depends on the processor's vectors, and
  none is contracted: compiled for AVX2 or for none, a frame gives the same bits.
*/

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64
#define LANES 4
#define MOST_SAMPLES (1 << 20) /* of a transform */

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES
#endif
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors pass between clones of one file only */

typedef double Vector __attribute__((vector_size(LANES * sizeof(double))));

typedef struct {
    const float *signal;
    Py_ssize_t n_frames, hop, n_win, n_fft, n_bands;
    const double *window, *turns, *weights; /* turns: cos and sin of 2 pi k / n_fft */
    const int32_t *order, *first, *length;
    int removes_mean;
    double preemph;
    float *energies, *out;
} Task;

/* Transform m complex numbers in place, decimating in frequency by four, at last by two. */
CLONES static void transform(Vector *restrict z, Py_ssize_t m, const double *turns) {
    Py_ssize_t size = m, step = 2; /* turns are those of the real transform, twice as long */
    for (; size >= 4; size /= 4, step *= 4) {
        const Py_ssize_t quarter = size / 4;
        for (Py_ssize_t k = 0; k < quarter; k++) {
            const double *t1 = turns + 2 * k * step, *t2 = t1 + 2 * k * step,
                         *t3 = t2 + 2 * k * step;
            for (Py_ssize_t at = k; at < m; at += size) {
                Vector *p0 = z + 2 * at, *p1 = p0 + 2 * quarter, *p2 = p1 + 2 * quarter,
                       *p3 = p2 + 2 * quarter;
                const Vector ar = p0[0] + p2[0], ai = p0[1] + p2[1], br = p0[0] - p2[0],
                             bi = p0[1] - p2[1], cr = p1[0] + p3[0], ci = p1[1] + p3[1],
                             dr = p1[0] - p3[0], di = p1[1] - p3[1];
                const Vector er = ar - cr, ei = ai - ci; /* to bins 4 j + 2 */
                const Vector fr = br + di, fi = bi - dr; /* to bins 4 j + 1 */
                const Vector gr = br - di, gi = bi + dr; /* to bins 4 j + 3 */
                p0[0] = ar + cr, p0[1] = ai + ci;
                p1[0] = er * t2[0] + ei * t2[1], p1[1] = ei * t2[0] - er * t2[1];
                p2[0] = fr * t1[0] + fi * t1[1], p2[1] = fi * t1[0] - fr * t1[1];
                p3[0] = gr * t3[0] + gi * t3[1], p3[1] = gi * t3[0] - gr * t3[1];
            }
        }
    }
    for (Py_ssize_t at = 0; size == 2 && at < m; at += 2) {
        Vector *p = z + 2 * at;
        const Vector re = p[2], im = p[3];
        p[2] = p[0] - re, p[3] = p[1] - im;
        p[0] += re, p[1] += im;
    }
}

/* Give four times the powers of the bins 0 to m of 2 m real numbers. */
CLONES static void square(const Vector *restrict z, Vector *restrict power, Py_ssize_t m,
                          const double *turns, const int32_t *order) {
    const Vector sum = z[0] + z[1], difference = z[0] - z[1];
    power[0] = 4 * (sum * sum);
    power[m] = 4 * (difference * difference);
    for (Py_ssize_t k = 1; k <= m / 2; k++) {
        const Vector *x = z + 2 * (Py_ssize_t)order[k], *y = z + 2 * (Py_ssize_t)order[m - k];
        const double c = turns[2 * k], s = turns[2 * k + 1];
        const Vector even_r = x[0] + y[0], even_i = x[1] - y[1];
        const Vector odd_r = x[0] - y[0], odd_i = x[1] + y[1];
        const Vector turned_r = odd_i * c - odd_r * s, turned_i = odd_r * c + odd_i * s;
        const Vector near_r = even_r + turned_r, near_i = even_i - turned_i;
        const Vector far_r = even_r - turned_r, far_i = even_i + turned_i;
        power[k] = near_r * near_r + near_i * near_i;
        power[m - k] = far_r * far_r + far_i * far_i;
    }
}

/* Lay LANES frames side by side, free of their means, emphasised, windowed; note energies. */
CLONES static void shape(const Task *task, Py_ssize_t frame, Py_ssize_t n, Vector *z) {
    const float *row[LANES];
    for (Py_ssize_t lane = 0; lane < LANES; lane++)
        row[lane] = task->signal + (frame + (lane < n ? lane : n - 1)) * task->hop;
    const Py_ssize_t n_win = task->n_win;
    for (Py_ssize_t i = 0; i < n_win; i++) {
        Vector sample;
        for (int lane = 0; lane < LANES; lane++)
            sample[lane] = (double)row[lane][i];
        z[i] = sample;
    }
    if (task->removes_mean) {
        Vector mean = {0};
        for (Py_ssize_t i = 0; i < n_win; i++)
            mean += z[i];
        mean /= (double)n_win;
        for (Py_ssize_t i = 0; i < n_win; i++)
            z[i] -= mean;
    }
    if (task->energies) {
        Vector energy = {0};
        for (Py_ssize_t i = 0; i < n_win; i++)
            energy += z[i] * z[i];
        for (Py_ssize_t lane = 0; lane < n; lane++)
            task->energies[frame + lane] = (float)energy[lane];
    }
    if (task->preemph != 0) {
        for (Py_ssize_t i = n_win - 1; i > 0; i--)
            z[i] -= task->preemph * z[i - 1];
        z[0] -= task->preemph * z[0];
    }
    for (Py_ssize_t i = 0; i < n_win; i++)
        z[i] *= task->window[i];
    memset(z + n_win, 0, (size_t)(task->n_fft - n_win) * sizeof(Vector));
}

/* Sum the powers of each band. */
CLONES static void sum(const Task *task, Py_ssize_t frame, Py_ssize_t n, const Vector *power) {
    const double *weight = task->weights;
    for (Py_ssize_t band = 0; band < task->n_bands; band++) {
        const Vector *p = power + task->first[band];
        const Py_ssize_t length = task->length[band];
        Vector even = {0}, odd = {0};
        for (Py_ssize_t j = 0; j + 1 < length; j += 2)
            even += p[j] * weight[j], odd += p[j + 1] * weight[j + 1];
        if (length % 2)
            even += p[length - 1] * weight[length - 1];
        even += odd;
        weight += length;
        for (Py_ssize_t lane = 0; lane < n; lane++)
            task->out[(frame + lane) * task->n_bands + band] = (float)even[lane];
    }
}

/* Do a task; 0 without memory. */
static int run(const Task *task) {
    const Py_ssize_t m = task->n_fft / 2;
    const size_t n_bytes = (size_t)(task->n_fft + m + 1) * sizeof(Vector);
    char *memory = malloc(n_bytes + ALIGNMENT);
    if (!memory)
        return 0;
    Vector *z = (Vector *)(memory + (ALIGNMENT - (uintptr_t)memory % ALIGNMENT));
    Vector *power = z + task->n_fft;
    for (Py_ssize_t frame = 0; frame < task->n_frames; frame += LANES) {
        const Py_ssize_t left = task->n_frames - frame, n = left < LANES ? left : LANES;
        shape(task, frame, n, z);
        transform(z, m, task->turns);
        square(z, power, m, task->turns, task->order);
        sum(task, frame, n, power);
    }
    free(memory);
    return 1;
}

enum { SIGNAL, WINDOW, TURNS, ORDER, FIRST, LENGTH, WEIGHTS, ENERGIES, OUT, N_BUFFERS };
static const Py_ssize_t ITEM_BYTES[N_BUFFERS] = {4, 8, 8, 4, 4, 4, 8, 4, 4};

typedef struct {
    Py_buffer buffers[N_BUFFERS];
    Py_ssize_t sizes[N_BUFFERS]; /* in numbers, not bytes */
    Py_ssize_t offset;
    Task task;
} Call;

/* Count the numbers in each buffer; say what is wrong with it, NULL if nothing. */
static const char *measure(Call *call) {
    for (int k = 0; k < N_BUFFERS; k++) {
        const Py_buffer *buffer = &call->buffers[k];
        if ((uintptr_t)buffer->buf % (size_t)ITEM_BYTES[k] || buffer->len % ITEM_BYTES[k])
            return "numbers that are not aligned";
        call->sizes[k] = buffer->len / ITEM_BYTES[k];
    }
    return NULL;
}

/* Say what is wrong with the frames and the room for their results; NULL if nothing. */
static const char *frames_fault(const Call *call) {
    const Py_ssize_t *sizes = call->sizes, n_signal = sizes[SIGNAL];
    const Task *task = &call->task;
    if (call->offset < 0 || task->hop < 1 || task->n_frames < 1)
        return "no frames";
    if (call->offset > n_signal || task->n_win > n_signal - call->offset ||
        (task->n_frames - 1) > (n_signal - call->offset - task->n_win) / task->hop)
        return "frames beyond the signal";
    if (task->n_bands < 1 || sizes[OUT] % task->n_bands ||
        sizes[OUT] / task->n_bands != task->n_frames ||
        (sizes[ENERGIES] && sizes[ENERGIES] != task->n_frames))
        return "no room for the result";
    return NULL;
}

/* Say what is wrong with the plan; NULL if nothing. */
static const char *plan_fault(const Call *call) {
    const Task *task = &call->task;
    const Py_ssize_t n_fft = task->n_fft, n_complex = n_fft / 2;
    if (n_fft < 4 || n_fft > MOST_SAMPLES || (n_fft & (n_fft - 1)) || task->n_win < 1 ||
        task->n_win > n_fft || call->sizes[TURNS] != 2 * n_fft)
        return "no transform of this length";
    if (call->sizes[ORDER] != n_complex || call->sizes[LENGTH] != call->sizes[FIRST])
        return "a plan of other lengths";
    for (Py_ssize_t k = 0; k < n_complex; k++)
        if (task->order[k] < 0 || task->order[k] >= n_complex)
            return "an order beyond the transform";
    Py_ssize_t n_weights = 0;
    for (Py_ssize_t band = 0; band < task->n_bands; band++) {
        const Py_ssize_t first = task->first[band], length = task->length[band];
        if (first < 0 || length < 0 || first + length > n_complex + 1)
            return "a band beyond the transform";
        n_weights += length;
    }
    return n_weights == call->sizes[WEIGHTS] ? NULL : "other weights than bands";
}

/* Fill in the task; say what is wrong with the call, NULL if nothing. */
static const char *fault(Call *call) {
    const char *wrong = measure(call);
    if (wrong)
        return wrong;
    const Py_buffer *buffers = call->buffers;
    Task *task = &call->task;
    task->n_win = call->sizes[WINDOW], task->n_fft = call->sizes[TURNS] / 2;
    task->n_bands = call->sizes[FIRST];
    task->window = buffers[WINDOW].buf, task->turns = buffers[TURNS].buf;
    task->order = buffers[ORDER].buf, task->first = buffers[FIRST].buf;
    task->length = buffers[LENGTH].buf, task->weights = buffers[WEIGHTS].buf;
    task->energies = call->sizes[ENERGIES] ? buffers[ENERGIES].buf : NULL;
    task->out = buffers[OUT].buf;
    if ((wrong = plan_fault(call)) || (wrong = frames_fault(call)))
        return wrong;
    task->signal = (const float *)buffers[SIGNAL].buf + call->offset;
    return NULL;
}

static PyObject *powers(PyObject *Py_UNUSED(module), PyObject *args) {
    Call call = {0};
    Py_buffer *b = call.buffers;
    Task *task = &call.task;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*nnny*y*y*y*y*y*pdw*w*", &b[SIGNAL], &call.offset, &task->hop,
                          &task->n_frames, &b[WINDOW], &b[TURNS], &b[ORDER], &b[FIRST], &b[LENGTH],
                          &b[WEIGHTS], &task->removes_mean, &task->preemph, &b[ENERGIES], &b[OUT]))
        return NULL;
    const char *wrong = fault(&call);
    if (wrong) {
        PyErr_SetString(PyExc_ValueError, wrong);
    } else {
        int is_done;
        Py_BEGIN_ALLOW_THREADS;
        is_done = run(task);
        Py_END_ALLOW_THREADS;
        result = is_done ? Py_NewRef(Py_None) : PyErr_NoMemory();
    }
    for (int k = 0; k < N_BUFFERS; k++)
        PyBuffer_Release(&b[k]);
    return result;
}

static PyMethodDef METHODS[] = {
    {"powers", powers, METH_VARARGS,
     "powers(signal, offset, hop, n_frames, window, turns, order, first, length, weights,"
     " removes_mean, preemph, energies, out)"},
    {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot SLOTS[] = {{0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_bands", "Frames of a signal -> powers in bands.", 0, METHODS, SLOTS,
    NULL,                  NULL,     NULL};

PyMODINIT_FUNC PyInit__bands(void) { return PyModuleDef_Init(&MODULE); }
