/* The smoother of two states as smoother.py has it, compiled: fifty times as fast.

Rules
-----
- Each sum and product stands in the order of smoother.py, none is contracted: the same bits.
- A table is five rows of doubles: step, keep, loose, offset, weight of each time.
*/

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdlib.h>

#define N_ROWS 5

typedef struct {
    double offset, drift, p00, p01, p11;
} State;

typedef struct {
    const double *step, *keep, *loose, *offset, *weight;
    Py_ssize_t n;
    double walk, offset_prior, drift_prior, drift_reset; /* variances */
} Task;

static State predicted(State s, double step, double keep, double walk, const Task *task) {
    State next = s;
    double noise = walk * step;
    if (keep == 0.0) {
        next.offset = 0.0;
        next.p00 = task->offset_prior;
        next.p01 = 0.0;
        next.p11 = s.p11 + task->drift_reset + noise;
        return next;
    }
    next.offset = s.offset + step * s.drift;
    next.p00 = s.p00 + step * (2 * s.p01 + step * s.p11) + noise * step * step / 3;
    next.p01 = s.p01 + step * s.p11 + noise * step / 2;
    next.p11 = s.p11 + noise;
    return next;
}

/* Run the filter; `states` may be NULL. Gives the log-likelihood. */
static double filtered(const Task *task, State *states) {
    State s = {0.0, 0.0, task->offset_prior, 0.0, task->drift_prior};
    double likelihood = 0.0;
    for (Py_ssize_t k = 0; k < task->n; k++) {
        if (k) s = predicted(s, task->step[k], task->keep[k], task->walk * task->loose[k], task);
        double w = task->weight[k], miss = task->offset[k] - s.offset;
        double share = 1 / (1 + s.p00 * w);
        s.offset = s.offset + s.p00 * w * share * miss;
        s.drift = s.drift + s.p01 * w * share * miss;
        s.p11 -= s.p01 * s.p01 * w * share;
        s.p00 = s.p00 * share;
        s.p01 = s.p01 * share;
        if (states) states[k] = s;
        likelihood += log(share) - miss * miss * w * share;
    }
    return likelihood / 2;
}

/* Correct a filtered state by the smoothed one after it. */
static State corrected(State s, State later, double step, double keep, double walk,
                       const Task *task) {
    State ahead = predicted(s, step, keep, walk, task);
    double q00 = ahead.p00, q01 = ahead.p01, q11 = ahead.p11;
    double c00 = keep * (s.p00 + step * s.p01), c10 = keep * (s.p01 + step * s.p11);
    double det = q00 * q11 - q01 * q01;
    double g00 = (c00 * q11 - s.p01 * q01) / det, g01 = (s.p01 * q00 - c00 * q01) / det;
    double g10 = (c10 * q11 - s.p11 * q01) / det, g11 = (s.p11 * q00 - c10 * q01) / det;
    double e0 = later.offset - ahead.offset, e1 = later.drift - ahead.drift;
    double d00 = later.p00 - q00, d01 = later.p01 - q01, d11 = later.p11 - q11;
    double h00 = g00 * d00 + g01 * d01, h01 = g00 * d01 + g01 * d11;
    double h10 = g10 * d00 + g11 * d01, h11 = g10 * d01 + g11 * d11;
    s.offset = s.offset + g00 * e0 + g01 * e1;
    s.drift = s.drift + g10 * e0 + g11 * e1;
    s.p00 = s.p00 + h00 * g00 + h01 * g01;
    s.p01 = s.p01 + h00 * g10 + h01 * g11;
    s.p11 = s.p11 + h10 * g10 + h11 * g11;
    return s;
}

static int read_task(const Py_buffer *table, Task *task) {
    task->n = table->len / (Py_ssize_t)(N_ROWS * sizeof(double));
    if (task->n < 1 || table->len != task->n * (Py_ssize_t)(N_ROWS * sizeof(double))) {
        PyErr_SetString(PyExc_ValueError, "a table of five rows is needed");
        return 0;
    }
    const double *rows = table->buf;
    task->step = rows;
    task->keep = rows + task->n;
    task->loose = rows + 2 * task->n;
    task->offset = rows + 3 * task->n;
    task->weight = rows + 4 * task->n;
    return 1;
}

static PyObject *likelihood(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer table;
    Task task;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*d(ddd)", &table, &task.walk, &task.offset_prior,
                          &task.drift_prior, &task.drift_reset))
        return NULL;
    if (read_task(&table, &task)) {
        double found;
        Py_BEGIN_ALLOW_THREADS;
        found = filtered(&task, NULL);
        Py_END_ALLOW_THREADS;
        result = PyFloat_FromDouble(found);
    }
    PyBuffer_Release(&table);
    return result;
}

static PyObject *smooth(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer table, out;
    Task task;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*d(ddd)w*", &table, &task.walk, &task.offset_prior,
                          &task.drift_prior, &task.drift_reset, &out))
        return NULL;
    if (read_task(&table, &task)) {
        if (out.len != table.len) {
            PyErr_SetString(PyExc_ValueError, "five numbers a time are given");
        } else {
            State *states = out.buf;
            Py_BEGIN_ALLOW_THREADS;
            filtered(&task, states);
            for (Py_ssize_t k = task.n - 2; k >= 0; k--)
                states[k] = corrected(states[k], states[k + 1], task.step[k + 1], task.keep[k + 1],
                                      task.walk * task.loose[k + 1], &task);
            Py_END_ALLOW_THREADS;
            result = Py_NewRef(Py_None);
        }
    }
    PyBuffer_Release(&table);
    PyBuffer_Release(&out);
    return result;
}

static PyMethodDef METHODS[] = {
    {"likelihood", likelihood, METH_VARARGS, "likelihood(table, walk, priors) -> float"},
    {"smooth", smooth, METH_VARARGS, "smooth(table, walk, priors, out)"},
    {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot SLOTS[] = {{0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_smoother", "The smoother of two states.", 0, METHODS, SLOTS,
    NULL,                  NULL,        NULL};

PyMODINIT_FUNC PyInit__smoother(void) { return PyModuleDef_Init(&MODULE); }
