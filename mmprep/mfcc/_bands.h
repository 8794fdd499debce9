/* The transform and the bands for one type of real numbers; included once for each.

Frames are computed LANES at a time, side by side in one vector: what a frame gives depends on
nothing beside it.
*/

typedef REAL VEC __attribute__((vector_size(LANES * sizeof(REAL))));

typedef struct {
    const float *signal;
    Py_ssize_t n_frames, hop, n_win, n_fft, n_bands;
    const REAL *window, *turns, *weights; /* turns: cos and sin of 2 pi k / n_fft */
    const int32_t *order, *first, *length;
    int removes_mean;
    REAL preemph;
    float *energies, *out;
} NAME(Task);

/* Transform m complex numbers in place, decimating in frequency by four, at last by two. */
CLONES static void NAME(transform)(VEC *restrict z, Py_ssize_t m, const REAL *turns) {
    Py_ssize_t size = m, step = 2; /* turns are those of the real transform, twice as long */
    for (; size >= 4; size /= 4, step *= 4) {
        const Py_ssize_t quarter = size / 4;
        for (Py_ssize_t k = 0; k < quarter; k++) {
            const REAL *t1 = turns + 2 * k * step, *t2 = t1 + 2 * k * step, *t3 = t2 + 2 * k * step;
            for (Py_ssize_t at = k; at < m; at += size) {
                VEC *p0 = z + 2 * at, *p1 = p0 + 2 * quarter, *p2 = p1 + 2 * quarter,
                    *p3 = p2 + 2 * quarter;
                const VEC ar = p0[0] + p2[0], ai = p0[1] + p2[1], br = p0[0] - p2[0],
                          bi = p0[1] - p2[1], cr = p1[0] + p3[0], ci = p1[1] + p3[1],
                          dr = p1[0] - p3[0], di = p1[1] - p3[1];
                const VEC er = ar - cr, ei = ai - ci;         /* to bins 4 j + 2 */
                const VEC fr = br + di, fi = bi - dr;         /* to bins 4 j + 1 */
                const VEC gr = br - di, gi = bi + dr;         /* to bins 4 j + 3 */
                p0[0] = ar + cr, p0[1] = ai + ci;
                p1[0] = er * t2[0] + ei * t2[1], p1[1] = ei * t2[0] - er * t2[1];
                p2[0] = fr * t1[0] + fi * t1[1], p2[1] = fi * t1[0] - fr * t1[1];
                p3[0] = gr * t3[0] + gi * t3[1], p3[1] = gi * t3[0] - gr * t3[1];
            }
        }
    }
    for (Py_ssize_t at = 0; size == 2 && at < m; at += 2) {
        VEC *p = z + 2 * at;
        const VEC re = p[2], im = p[3];
        p[2] = p[0] - re, p[3] = p[1] - im;
        p[0] += re, p[1] += im;
    }
}

/* Give four times the powers of the bins 0 to m of 2 m real numbers. */
CLONES static void NAME(powers)(const VEC *restrict z, VEC *restrict power, Py_ssize_t m,
                                const REAL *turns, const int32_t *order) {
    const VEC sum = z[0] + z[1], difference = z[0] - z[1];
    power[0] = 4 * (sum * sum);
    power[m] = 4 * (difference * difference);
    for (Py_ssize_t k = 1; k <= m / 2; k++) {
        const VEC *x = z + 2 * (Py_ssize_t)order[k], *y = z + 2 * (Py_ssize_t)order[m - k];
        const REAL c = turns[2 * k], s = turns[2 * k + 1];
        const VEC even_r = x[0] + y[0], even_i = x[1] - y[1];
        const VEC odd_r = x[0] - y[0], odd_i = x[1] + y[1];
        const VEC turned_r = odd_i * c - odd_r * s, turned_i = odd_r * c + odd_i * s;
        const VEC near_r = even_r + turned_r, near_i = even_i - turned_i;
        const VEC far_r = even_r - turned_r, far_i = even_i + turned_i;
        power[k] = near_r * near_r + near_i * near_i;
        power[m - k] = far_r * far_r + far_i * far_i;
    }
}

/* Lay LANES frames side by side, free of their means, emphasised, windowed; note energies. */
CLONES static void NAME(shape)(const NAME(Task) * task, Py_ssize_t frame, Py_ssize_t n, VEC *z) {
    const float *row[LANES];
    for (Py_ssize_t lane = 0; lane < LANES; lane++)
        row[lane] = task->signal + (frame + (lane < n ? lane : n - 1)) * task->hop;
    const Py_ssize_t n_win = task->n_win;
    for (Py_ssize_t i = 0; i < n_win; i++) {
        VEC sample;
        for (int lane = 0; lane < LANES; lane++)
            sample[lane] = (REAL)row[lane][i];
        z[i] = sample;
    }
    if (task->removes_mean) {
        VEC mean = {0};
        for (Py_ssize_t i = 0; i < n_win; i++)
            mean += z[i];
        mean /= (REAL)n_win;
        for (Py_ssize_t i = 0; i < n_win; i++)
            z[i] -= mean;
    }
    if (task->energies) {
        VEC energy = {0};
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
    memset(z + n_win, 0, (size_t)(task->n_fft - n_win) * sizeof(VEC));
}

/* Sum the powers of each band. */
CLONES static void NAME(sum)(const NAME(Task) * task, Py_ssize_t frame, Py_ssize_t n,
                             const VEC *power) {
    const REAL *weight = task->weights;
    for (Py_ssize_t band = 0; band < task->n_bands; band++) {
        const VEC *p = power + task->first[band];
        const Py_ssize_t length = task->length[band];
        VEC even = {0}, odd = {0};
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

static int NAME(run)(const NAME(Task) * task) {
    const Py_ssize_t m = task->n_fft / 2;
    const size_t n_bytes = (size_t)(task->n_fft + m + 1) * sizeof(VEC);
    char *memory = malloc(n_bytes + ALIGNMENT);
    if (!memory)
        return 0;
    VEC *z = (VEC *)(memory + (ALIGNMENT - (uintptr_t)memory % ALIGNMENT));
    VEC *power = z + task->n_fft;
    for (Py_ssize_t frame = 0; frame < task->n_frames; frame += LANES) {
        const Py_ssize_t left = task->n_frames - frame, n = left < LANES ? left : LANES;
        NAME(shape)(task, frame, n, z);
        NAME(transform)(z, m, task->turns);
        NAME(powers)(z, power, m, task->turns, task->order);
        NAME(sum)(task, frame, n, power);
    }
    free(memory);
    return 1;
}
