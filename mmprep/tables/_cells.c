/* Blocks of plain delimited text -> columns, in one pass over the bytes.

Rules
-----
- A shortcut, never an interpreter of doubtful text: at the first line or cell that is not plain,
  `read` gives None and the caller reads the block another way.
- Plain is: the same number of cells in each line; `-?digits` without leading zero for integers;
  decimal or E notation without leading zero for floats, below 2^53; decimals for stamps.
- Floats are rounded once, to nearest and ties to even: m / 10^k and m * 10^k are single operations
  on exact doubles where m < 2^53 and k <= 22 (Clinger 1990, "How to read floating point numbers
  accurately"); with up to 19 digits an integer division of 128 bits by 64 keeps the remainder;
  strtod does the rest.
- Stamps are integers: digits beyond the scale are rounded half to even.
*/

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CELLS 4096
#define MAX_NULLS 256
#define LONGEST_NUMBER 63
#define EXACT_INTEGERS 9007199254740992.0 /* 2^53 */

static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
static const uint64_t WHOLE_TENS[] = {1ull,
                                      10ull,
                                      100ull,
                                      1000ull,
                                      10000ull,
                                      100000ull,
                                      1000000ull,
                                      10000000ull,
                                      100000000ull,
                                      1000000000ull,
                                      10000000000ull,
                                      100000000000ull,
                                      1000000000000ull,
                                      10000000000000ull,
                                      100000000000000ull,
                                      1000000000000000ull,
                                      10000000000000000ull,
                                      100000000000000000ull,
                                      1000000000000000000ull,
                                      10000000000000000000ull};

typedef struct {
    char kind; /* i int64, f float64, t stamp, s text, 0 only missing values, - not read */
    PyObject *values;
    PyObject *valid;
    char *out;
    uint8_t *bits;
    Py_ssize_t n_nulls;
    const char **starts; /* of texts */
    int32_t *lengths;
    Py_ssize_t n_text_bytes;
} Column;

typedef struct {
    const char *begin[MAX_NULLS];
    Py_ssize_t length[MAX_NULLS];
    int n;
    int has_empty;
    char leads[256];        /* the first bytes of all of them */
    char number_leads[256]; /* the first bytes of those that look like numbers */
} Nulls;

typedef struct {
    char delimiter;
    int comment;        /* a byte that starts a comment, or -1 */
    const char *header; /* a line that is no row */
    Py_ssize_t header_length;
    int scale; /* decimals of a stamp */
} Form;

static int is_null(const Nulls *nulls, const char *cell, const char *end) {
    if (cell == end) return nulls->has_empty;
    if (!nulls->leads[(uint8_t)*cell]) return 0;
    for (int k = 0; k < nulls->n; k++) {
        if (nulls->length[k] == end - cell && !memcmp(nulls->begin[k], cell, (size_t)(end - cell)))
            return 1;
    }
    return 0;
}

static inline int is_digit(char c) { return (unsigned char)(c - '0') < 10; }

static int read_int(const char *p, const char *end, int64_t *out) {
    int negative = p < end && *p == '-';
    p += negative;
    if (p == end || end - p > 19 || (*p == '0' && end - p > 1)) return 0;
    uint64_t m = 0;
    for (; p < end; p++) {
        if (!is_digit(*p)) return 0;
        m = 10 * m + (uint64_t)(*p - '0');
    }
    if (m > (uint64_t)INT64_MAX + (uint64_t)negative) return 0;
    *out = negative ? (int64_t)(0 - m) : (int64_t)m;
    return 1;
}

static int read_slowly(const char *cell, const char *end, double *out) {
    char text[LONGEST_NUMBER + 1], *stop;
    size_t n = (size_t)(end - cell);
    if (n > LONGEST_NUMBER) return 0;
    memcpy(text, cell, n);
    text[n] = 0;
    *out = strtod(text, &stop);
    return stop == text + n; /* a decimal comma of the locale stops it early */
}

#ifdef __SIZEOF_INT128__
/* m / 10^k, rounded once; 0 < m, k <= 19. */
static double divided(uint64_t m, int k) {
    int up = __builtin_clzll(m), down = __builtin_clzll(WHOLE_TENS[k]);
    uint64_t divisor = WHOLE_TENS[k] << down;
    unsigned __int128 number = (unsigned __int128)(m << up) << 64;
    unsigned __int128 quotient = number / divisor; /* 64 or 65 bits */
    int is_exact = quotient * divisor == number;
    int extra = (int)(quotient >> 64) + 11;
    uint64_t kept = (uint64_t)(quotient >> extra);
    uint64_t rest = (uint64_t)(quotient & (((unsigned __int128)1 << extra) - 1));
    uint64_t half = (uint64_t)1 << (extra - 1);
    if (rest > half || (rest == half && (!is_exact || (kept & 1)))) kept++;
    return ldexp((double)kept, extra + down - up - 64);
}
#endif

static int read_float(const char *cell, const char *end, double *out) {
    const char *p = cell;
    int negative = p < end && *p == '-', n_digits = 0, exponent = 0, n_cells_digits;
    uint64_t m = 0;
    double value;
    p += negative;
    const char *first = p;
    for (; p < end && is_digit(*p); p++) m = 10 * m + (uint64_t)(*p - '0');
    n_digits = (int)(p - first);
    if (n_digits > 1 && *first == '0') return 0;
    n_cells_digits = n_digits;
    if (p < end && *p == '.') {
        const char *point = p++;
        for (; p < end && is_digit(*p); p++) m = 10 * m + (uint64_t)(*p - '0');
        exponent = -(int)(p - point - 1);
        n_cells_digits -= exponent;
    }
    if (!n_cells_digits) return 0;
    if (p < end && (*p == 'e' || *p == 'E')) {
        int sign = 1, said = 0;
        p++;
        if (p < end && (*p == '-' || *p == '+')) sign = *p++ == '-' ? -1 : 1;
        if (p == end || end - p > 4) return 0;
        for (; p < end && is_digit(*p); p++) said = 10 * said + (*p - '0');
        exponent += sign * said;
    }
    if (p != end) return 0;
    if (n_cells_digits > 19) {
        if (!read_slowly(cell, end, out)) return 0;
        return -EXACT_INTEGERS < *out && *out < EXACT_INTEGERS;
    }
    if (m == 0) {
        value = 0.0;
    } else if (m < (uint64_t)EXACT_INTEGERS && -22 <= exponent && exponent <= 22) {
        value = exponent < 0 ? (double)m / TENS[-exponent] : (double)m * TENS[exponent];
#ifdef __SIZEOF_INT128__
    } else if (-19 <= exponent && exponent < 0) {
        value = divided(m, -exponent);
#endif
    } else {
        if (!read_slowly(cell, end, out)) return 0;
        return -EXACT_INTEGERS < *out && *out < EXACT_INTEGERS;
    }
    *out = negative ? -value : value;
    return value < EXACT_INTEGERS;
}

static int read_stamp(const char *p, const char *end, int scale, int64_t *out) {
    int negative = p < end && *p == '-', n_digits = 0;
    uint64_t m = 0;
    p += negative;
    for (; p < end && is_digit(*p); p++) {
        m = 10 * m + (uint64_t)(*p - '0');
        if (++n_digits > 19) return 0;
    }
    if (!n_digits) return 0;
    int n_decimals = 0;
    if (p < end && *p == '.') {
        p++;
        for (; p < end && is_digit(*p) && n_decimals < scale; p++, n_decimals++) {
            m = 10 * m + (uint64_t)(*p - '0');
            if (++n_digits > 19) return 0;
        }
    }
    if (n_digits + scale - n_decimals > 19) return 0;
    m *= WHOLE_TENS[scale - n_decimals];
    if (p < end && is_digit(*p)) {
        int next = *p++ - '0', is_over = 0;
        for (; p < end && is_digit(*p); p++) is_over |= *p != '0';
        if (next > 5 || (next == 5 && (is_over || (m & 1)))) m++;
    }
    if (p != end || m > (uint64_t)INT64_MAX) return 0;
    *out = negative ? -(int64_t)m : (int64_t)m;
    return 1;
}

/* Words of eight bytes, the first one lowest: cells of up to eight bytes are read without a loop. */

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HAS_WORDS 1
#define EACH(byte) (0x0101010101010101ull * (uint8_t)(byte))

/* Mark (by 0x80) the bytes of a word that are `byte`; marks above the lowest may be wrong. */
static inline uint64_t marks(uint64_t word, char byte) {
    uint64_t zero = word ^ EACH(byte);
    return (zero - EACH(1)) & ~zero & EACH(0x80);
}

static inline int place(uint64_t mark) { return __builtin_ctzll(mark) >> 3; }

static inline uint64_t low_bytes(int n) { return n ? ~0ull >> (64 - 8 * n) : 0; }

/* Read eight digits; 0 where a byte is none (after W. Mula and D. Lemire). */
static inline int eight_digits(uint64_t word, uint64_t *m) {
    if (((word & EACH(0xf0)) | (((word + EACH(6)) & EACH(0xf0)) >> 4)) != EACH(0x33)) return 0;
    word = (word & EACH(0x0f)) * 2561 >> 8;
    word = (word & 0x00ff00ff00ff00ffull) * 6553601 >> 16;
    *m = (word & 0x0000ffff0000ffffull) * 42949672960001ull >> 32;
    return 1;
}

/* Read a number of up to eight bytes at `*p` and step to its end; 0 where it is longer, or odd. */
static inline int short_number(const char **p, char delimiter, uint64_t *m, int *n_decimals) {
    uint64_t word, stop;
    memcpy(&word, *p, 8);
    stop = marks(word, delimiter) | marks(word, '\n');
    if (!stop) return 0;
    int n = place(stop);
    word &= low_bytes(n);
    uint64_t point = marks(word, '.');
    int n_digits = n;
    *n_decimals = 0;
    if (point) {
        int at = place(point);
        word = (word & low_bytes(at)) | (at == 7 ? 0 : (word >> 8 * (at + 1)) << 8 * at);
        n_digits = n - 1;
        *n_decimals = n_digits - at;
    }
    if (!n_digits) return 0;
    if ((word & 0xff) == '0' && n_digits - *n_decimals > 1) return 0;
    int spare = 8 - n_digits;
    word = (spare ? word << 8 * spare : word) | (EACH('0') & low_bytes(spare));
    if (!eight_digits(word, m)) return 0;
    *p += n;
    return 1;
}

/* Take the number at `*p` and step to its end; nothing is done where it is not a short one. */
static inline int take_short(Column *column, Py_ssize_t row, const char **p, const Nulls *nulls,
                             const Form *form) {
    if (column->kind != 'f' && column->kind != 'i') return 0;
    if (nulls->number_leads[(uint8_t)**p]) return 0;
    const char *end = *p + (**p == '-');
    int negative = end != *p, n_decimals;
    uint64_t m;
    if (!short_number(&end, form->delimiter, &m, &n_decimals)) return 0;
    if (column->kind == 'f') {
        double value = (double)m / TENS[n_decimals];
        ((double *)column->out)[row] = negative ? -value : value;
    } else if (n_decimals || end[-1] == '.') {
        return 0;
    } else {
        ((int64_t *)column->out)[row] = negative ? -(int64_t)m : (int64_t)m;
    }
    *p = end;
    return 1;
}
#endif

static int take(Column *column, Py_ssize_t row, const char *cell, const char *end,
                const Nulls *nulls, const Form *form) {
    if (column->kind == '-') return 1;
    if (is_null(nulls, cell, end)) {
        if (column->kind == '0') return 1;
        column->bits[row >> 3] &= (uint8_t)~(1u << (row & 7));
        column->n_nulls++;
        if (column->kind == 's') {
            column->starts[row] = cell;
            column->lengths[row] = 0;
        } else {
            memset(column->out + 8 * row, 0, 8);
        }
        return 1;
    }
    switch (column->kind) {
    case 'f': return read_float(cell, end, (double *)column->out + row);
    case 'i': return read_int(cell, end, (int64_t *)column->out + row);
    case 't': return read_stamp(cell, end, form->scale, (int64_t *)column->out + row);
    case 's':
        column->starts[row] = cell;
        column->lengths[row] = (int32_t)(end - cell);
        column->n_text_bytes += end - cell;
        return 1;
    default: return 0; /* a value where none may be */
    }
}

static int is_row(const char *line, const char *stop, const Form *form) {
    Py_ssize_t n = form->header_length;
    if ((unsigned char)*line == form->comment) return 0;
    if (!n || *line != *form->header || stop - line < n || memcmp(line, form->header, (size_t)n))
        return 1;
    return stop - line > n && line[n] != '\n';
}

static int read_lines(const char *p, const char *stop, Column *columns, Py_ssize_t n_cells,
                      const Nulls *nulls, const Form *form) {
    for (Py_ssize_t row = 0; p < stop; row++) {
        if (!is_row(p, stop, form)) return 0;
        for (Py_ssize_t k = 0; k < n_cells; k++) {
            const char *cell = p;
#ifdef HAS_WORDS
            if (stop - p > 9 && take_short(&columns[k], row, &p, nulls, form)) {
                if (k + 1 < n_cells ? *p != form->delimiter : *p != '\n') return 0;
                p++;
                continue;
            }
#endif
            while (p < stop && *p != form->delimiter && *p != '\n') p++;
            if (k + 1 < n_cells ? p == stop || *p != form->delimiter : p < stop && *p != '\n')
                return 0;
            if (!take(&columns[k], row, cell, p, nulls, form)) return 0;
            p++;
        }
    }
    return 1;
}

static Py_ssize_t count_lines(const char *p, Py_ssize_t n) {
    Py_ssize_t found = 0;
    for (Py_ssize_t k = 0; k < n; k += 128) { /* short runs that fit a byte are summed at once */
        uint8_t some = 0;
        Py_ssize_t stop = n - k < 128 ? n : k + 128;
        for (Py_ssize_t j = k; j < stop; j++) some = (uint8_t)(some + (p[j] == '\n'));
        found += some;
    }
    return n && p[n - 1] != '\n' ? found + 1 : found;
}

static int prepare(Column *column, Py_ssize_t n_rows) {
    if (column->kind == '-' || column->kind == '0') return 1;
    column->valid = PyBytes_FromStringAndSize(NULL, (n_rows + 7) / 8);
    if (!column->valid) return 0;
    column->bits = (uint8_t *)PyBytes_AsString(column->valid);
    memset(column->bits, 0xff, (size_t)((n_rows + 7) / 8));
    if (column->kind == 's') {
        column->starts = malloc(sizeof(char *) * (size_t)(n_rows + 1));
        column->lengths = malloc(sizeof(int32_t) * (size_t)(n_rows + 1));
        return column->starts && column->lengths;
    }
    column->values = PyBytes_FromStringAndSize(NULL, 8 * n_rows);
    if (!column->values) return 0;
    column->out = PyBytes_AsString(column->values);
    return 1;
}

/* Join texts as Arrow keeps them: offsets and bytes. */
static PyObject *joined(Column *column, Py_ssize_t n_rows) {
    PyObject *offsets = PyBytes_FromStringAndSize(NULL, 4 * (n_rows + 1));
    column->values = PyBytes_FromStringAndSize(NULL, column->n_text_bytes);
    if (!offsets || !column->values) {
        Py_XDECREF(offsets);
        return NULL;
    }
    int32_t *ends = (int32_t *)PyBytes_AsString(offsets), at = 0;
    char *out = PyBytes_AsString(column->values);
    ends[0] = 0;
    for (Py_ssize_t row = 0; row < n_rows; row++) {
        memcpy(out + at, column->starts[row], (size_t)column->lengths[row]);
        ends[row + 1] = at += column->lengths[row];
    }
    return offsets;
}

static PyObject *given(Column *column, Py_ssize_t n_rows) {
    if (column->kind == '-' || column->kind == '0') return Py_NewRef(Py_None);
    PyObject *offsets = column->kind == 's' ? joined(column, n_rows) : Py_NewRef(Py_None);
    if (!offsets) return NULL;
    PyObject *valid = column->n_nulls ? column->valid : Py_None;
    return Py_BuildValue("(OnNO)", valid, column->n_nulls, offsets, column->values);
}

static int read_nulls(PyObject *list, Nulls *nulls) {
    Py_ssize_t n = PyTuple_Size(list);
    if (n < 0) return 0;
    if (n > MAX_NULLS) {
        PyErr_SetString(PyExc_ValueError, "too many spellings of missing values");
        return 0;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        char *begin;
        Py_ssize_t length;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(list, k), &begin, &length)) return 0;
        if (!length) {
            nulls->has_empty = 1;
            continue;
        }
        nulls->leads[(uint8_t)begin[0]] = 1;
        if (strspn(begin, "-.0123456789") == (size_t)length)
            nulls->number_leads[(uint8_t)begin[0]] = 1;
        nulls->begin[nulls->n] = begin;
        nulls->length[nulls->n++] = length;
    }
    return 1;
}

static PyObject *read_block(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer data;
    const char *kinds;
    Py_ssize_t n_cells;
    PyObject *spellings, *result = NULL;
    int delimiter, is_plain;
    Nulls nulls = {0};
    Form form;
    if (!PyArg_ParseTuple(args, "y*iy#O!iy#i", &data, &delimiter, &kinds, &n_cells, &PyTuple_Type,
                          &spellings, &form.comment, &form.header, &form.header_length,
                          &form.scale))
        return NULL;
    Column *columns = calloc((size_t)n_cells + 1, sizeof(Column));
    if (!columns) {
        PyErr_NoMemory();
        goto end;
    }
    if (n_cells < 1 || n_cells > MAX_CELLS || data.len > INT32_MAX || form.scale < 0 ||
        form.scale > 9) {
        PyErr_SetString(PyExc_ValueError, "cells, bytes or scale out of range");
        goto end;
    }
    if (!read_nulls(spellings, &nulls)) goto end;
    form.delimiter = (char)delimiter;
    Py_ssize_t n_rows = count_lines(data.buf, data.len);
    for (Py_ssize_t k = 0; k < n_cells; k++) {
        columns[k].kind = kinds[k];
        if (!prepare(&columns[k], n_rows)) {
            if (!PyErr_Occurred()) PyErr_NoMemory();
            goto end;
        }
    }
    Py_BEGIN_ALLOW_THREADS
    is_plain = read_lines(data.buf, (const char *)data.buf + data.len, columns, n_cells, &nulls,
                          &form);
    Py_END_ALLOW_THREADS
    if (!is_plain) {
        result = Py_NewRef(Py_None);
        goto end;
    }
    PyObject *found = PyList_New(n_cells);
    if (!found) goto end;
    for (Py_ssize_t k = 0; k < n_cells; k++) {
        PyObject *column = given(&columns[k], n_rows);
        if (!column) {
            Py_DECREF(found);
            goto end;
        }
        PyList_SetItem(found, k, column);
    }
    result = Py_BuildValue("(nN)", n_rows, found);
end:
    for (Py_ssize_t k = 0; columns && k < n_cells; k++) {
        Py_XDECREF(columns[k].values);
        Py_XDECREF(columns[k].valid);
        free((void *)columns[k].starts);
        free(columns[k].lengths);
    }
    free(columns);
    PyBuffer_Release(&data);
    return result;
}

/* Say what a cell needs: 0 nothing, i int64, f float64, s text; ? where it is hard to tell. */
static char kind_of(const char *cell, const char *end, const Nulls *nulls) {
    int64_t whole;
    double value;
    if (is_null(nulls, cell, end)) return '0';
    if (read_int(cell, end, &whole)) return 'i';
    if (read_float(cell, end, &value)) return 'f';
    char lead = *cell | 0x20;
    int is_word = 'a' <= lead && lead <= 'z' && lead != 'i' && lead != 'n';
    return cell < end && is_word ? 's' : '?';
}

static inline char wider(char one, char other) {
    static const char order[] = "0if?s";
    if (one == other) return one;
    return strchr(order, one) > strchr(order, other) ? one : other;
}

#ifdef HAS_WORDS
/* As `kind_of` for a short number at `*p`, and step to its end; 0 where it is none. */
static inline char short_kind(const char **p, const Nulls *nulls, const Form *form) {
    if (nulls->number_leads[(uint8_t)**p]) return 0;
    const char *end = *p + (**p == '-');
    uint64_t m;
    int n_decimals;
    if (!short_number(&end, form->delimiter, &m, &n_decimals)) return 0;
    char kind = n_decimals || end[-1] == '.' ? 'f' : 'i';
    *p = end;
    return kind;
}
#endif

static int find_kinds(const char *p, const char *stop, char *kinds, Py_ssize_t n_cells,
                      const Nulls *nulls, const Form *form) {
    while (p < stop) {
        if (!is_row(p, stop, form)) return 0;
        for (Py_ssize_t k = 0; k < n_cells; k++) {
            const char *cell = p;
#ifdef HAS_WORDS
            char needed = stop - p > 9 ? short_kind(&p, nulls, form) : 0;
            if (needed) {
                if (k + 1 < n_cells ? *p != form->delimiter : *p != '\n') return 0;
                kinds[k] = wider(kinds[k], needed);
                p++;
                continue;
            }
#endif
            while (p < stop && *p != form->delimiter && *p != '\n') p++;
            if (k + 1 < n_cells ? p == stop || *p != form->delimiter : p < stop && *p != '\n')
                return 0;
            if (kinds[k] != 's') kinds[k] = wider(kinds[k], kind_of(cell, p, nulls));
            p++;
        }
    }
    return 1;
}

static PyObject *kinds_of_block(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer data;
    Py_ssize_t n_cells;
    PyObject *spellings, *result = NULL;
    int delimiter;
    Nulls nulls = {0};
    Form form = {0};
    if (!PyArg_ParseTuple(args, "y*inO!iy#", &data, &delimiter, &n_cells, &PyTuple_Type,
                          &spellings, &form.comment, &form.header, &form.header_length))
        return NULL;
    form.delimiter = (char)delimiter;
    char *kinds = n_cells > 0 && n_cells <= MAX_CELLS ? malloc((size_t)n_cells) : NULL;
    if (!kinds) {
        PyErr_SetString(PyExc_ValueError, "cells out of range");
    } else if (read_nulls(spellings, &nulls)) {
        memset(kinds, '0', (size_t)n_cells);
        int is_plain = find_kinds(data.buf, (const char *)data.buf + data.len, kinds, n_cells,
                                  &nulls, &form);
        result = is_plain ? PyBytes_FromStringAndSize(kinds, n_cells) : Py_NewRef(Py_None);
    }
    free(kinds);
    PyBuffer_Release(&data);
    return result;
}

static PyMethodDef METHODS[] = {
    {"kinds", kinds_of_block, METH_VARARGS,
     "kinds(data, delimiter, n_cells, nulls, comment, header) -> kinds or None"},
    {"read", read_block, METH_VARARGS,
     "read(data, delimiter, kinds, nulls, comment, header, scale) -> (n_rows, columns) or None"},
    {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot SLOTS[] = {{0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_cells", "Blocks of plain delimited text -> columns.", 0, METHODS,
    SLOTS, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__cells(void) { return PyModuleDef_Init(&MODULE); }
