/* The hot steps in C: reserve, release, the permit, and settle's scan and swap, as strict.py, approximate.py and
 * recovery.py have them. Those are the reference; a step's counterpart here carries the same tag.
 *
 * Every operation runs in one piece under the GIL, so threads, signal handlers and finalizers of one process never
 * meet in the middle of one, and the words of a process's own slot have one writer: a plain store suffices for them.
 * Nothing here knows the layout: word numbers come from layout.py.
 */
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_RESOURCES 4
#define MAX_UNITS ((uint64_t)INT32_MAX)
#define LOW ((uint64_t)UINT32_MAX)
#define HIGH_ONE ((uint64_t)1 << 32)
#define ADMITTED (-1)
#define DAMAGED (-2)

typedef _Atomic(uint64_t) Word;

static inline uint64_t low(uint64_t word) { return word & LOW; }
static inline uint64_t high(uint64_t word) { return word >> 32; }
static inline uint64_t pack(uint64_t low_half, uint64_t high_half) { return (low_half & LOW) | high_half << 32; }

/* Put a new reference where another one may be. */
static void set_reference(PyObject **place, PyObject *object)
{
    PyObject *before = *place;
    Py_INCREF(object);
    *place = object;
    Py_XDECREF(before);
}

/* --- forks ---------------------------------------------------------------------------------------------------------
 * A child forked from C runs no Python hook. What it inherited is told by the generation, and the descriptors whose
 * locks prove that the parent lives are closed before any other code of the child runs. */

#define MAX_GUARDED 4096

typedef struct {
    _Atomic int descriptor; /* -1: free */
    dev_t device;
    ino_t inode;
} Guarded;

static _Atomic unsigned generation;
static Guarded guarded[MAX_GUARDED];

static bool is_same_file(const Guarded *entry, int descriptor)
{
    struct stat status;
    return fstat(descriptor, &status) == 0 && status.st_dev == entry->device && status.st_ino == entry->inode;
}

static void in_forked_child(void)
{
    atomic_fetch_add(&generation, 1);
    for (size_t i = 0; i < MAX_GUARDED; i++) {
        int descriptor = atomic_exchange(&guarded[i].descriptor, -1);
        if (descriptor >= 0 && is_same_file(&guarded[i], descriptor))
            close(descriptor);
    }
}

static PyObject *guard(PyObject *Py_UNUSED(module), PyObject *argument)
{
    int descriptor = (int)PyLong_AsLong(argument);
    struct stat status;
    if (descriptor == -1 && PyErr_Occurred())
        return NULL;
    if (fstat(descriptor, &status) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    for (size_t i = 0; i < MAX_GUARDED; i++) {
        if (atomic_load(&guarded[i].descriptor) < 0) {
            guarded[i].device = status.st_dev;
            guarded[i].inode = status.st_ino;
            atomic_store(&guarded[i].descriptor, descriptor);
            Py_RETURN_NONE;
        }
    }
    PyErr_Format(PyExc_OSError, "more than %d descriptors of segments are open", MAX_GUARDED);
    return NULL;
}

static PyObject *unguard(PyObject *Py_UNUSED(module), PyObject *argument)
{
    int descriptor = (int)PyLong_AsLong(argument);
    if (descriptor == -1 && PyErr_Occurred())
        return NULL;
    for (size_t i = 0; i < MAX_GUARDED; i++) {
        if (atomic_load(&guarded[i].descriptor) == descriptor)
            atomic_store(&guarded[i].descriptor, -1);
    }
    Py_RETURN_NONE;
}

static PyObject *forks(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromUnsignedLong(atomic_load(&generation));
}

/* --- words: the seam, natively -------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    Py_buffer view;
    Word *base; /* NULL once closed */
    size_t count;
    void *copy; /* what base is, once detached */
} Words;

static int words_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Words *self = (Words *)object;
    PyObject *memory;
    static char *names[] = {"memory", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Words", names, &memory))
        return -1;
    if (self->view.obj != NULL || self->copy != NULL) {
        PyErr_SetString(PyExc_ValueError, "words are made once");
        return -1;
    }
    if (PyObject_GetBuffer(memory, &self->view, PyBUF_WRITABLE) != 0)
        return -1;
    if ((uintptr_t)self->view.buf % sizeof(Word) != 0) {
        PyBuffer_Release(&self->view);
        PyErr_SetString(PyExc_ValueError, "memory is not aligned to 8 bytes");
        return -1;
    }
    self->base = self->view.buf;
    self->count = (size_t)self->view.len / sizeof(Word);
    return 0;
}

static void words_let_go(Words *self)
{
    self->base = NULL;
    if (self->view.obj != NULL)
        PyBuffer_Release(&self->view);
    free(self->copy);
    self->copy = NULL;
}

static void free_instance(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static void words_dealloc(PyObject *object)
{
    words_let_go((Words *)object);
    free_instance(object);
}

/* The word of that number, or NULL with an error set. */
static Word *word_at(Words *self, PyObject *number)
{
    size_t index = PyLong_AsSize_t(number);
    if (index == (size_t)-1 && PyErr_Occurred())
        return NULL;
    if (self->base == NULL) {
        PyErr_SetString(PyExc_ValueError, "words are closed");
        return NULL;
    }
    if (index >= self->count) {
        PyErr_Format(PyExc_IndexError, "word %zu is behind the last of %zu", index, self->count);
        return NULL;
    }
    return self->base + index;
}

static bool takes(const char *what, Py_ssize_t found, Py_ssize_t wanted)
{
    if (found == wanted)
        return true;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, %zd given", what, wanted, found);
    return false;
}

static PyObject *words_load(PyObject *object, PyObject *number)
{
    Word *word = word_at((Words *)object, number);
    return word ? PyLong_FromUnsignedLongLong(atomic_load(word)) : NULL;
}

static PyObject *words_store(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes("store", nargs, 2))
        return NULL;
    Word *word = word_at((Words *)object, args[0]);
    uint64_t value = PyLong_AsUnsignedLongLong(args[1]);
    if (word == NULL || (value == UINT64_MAX && PyErr_Occurred()))
        return NULL;
    atomic_store(word, value);
    Py_RETURN_NONE;
}

static PyObject *words_fetch_add(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes("fetch_add", nargs, 2))
        return NULL;
    Word *word = word_at((Words *)object, args[0]);
    uint64_t delta = PyLong_AsUnsignedLongLongMask(args[1]);
    if (word == NULL || (delta == UINT64_MAX && PyErr_Occurred()))
        return NULL;
    return PyLong_FromUnsignedLongLong(atomic_fetch_add(word, delta));
}

static PyObject *words_compare_exchange(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes("compare_exchange", nargs, 3))
        return NULL;
    Word *word = word_at((Words *)object, args[0]);
    uint64_t expected = PyLong_AsUnsignedLongLong(args[1]);
    if (word == NULL || (expected == UINT64_MAX && PyErr_Occurred()))
        return NULL;
    uint64_t desired = PyLong_AsUnsignedLongLong(args[2]);
    if (desired == UINT64_MAX && PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(atomic_compare_exchange_strong(word, &expected, desired));
}

/* Whether `count` words, `step` apart, are all there from `first`. */
static bool has_column(const Words *self, Py_ssize_t first, Py_ssize_t count, Py_ssize_t step)
{
    if (self->base == NULL)
        PyErr_SetString(PyExc_ValueError, "words are closed");
    else if (first < 0 || count < 0 || step < 1)
        PyErr_SetString(PyExc_IndexError, "a column begins at 0 or later and goes up");
    else if (count && ((size_t)first >= self->count || (size_t)(count - 1) > (self->count - 1 - (size_t)first) / (size_t)step))
        PyErr_Format(PyExc_IndexError, "a column of %zd words leaves the last of %zu", count, self->count);
    else
        return true;
    return false;
}

static PyObject *words_column(PyObject *object, PyObject *args)
{
    Words *self = (Words *)object;
    Py_ssize_t first, count, step;
    if (!PyArg_ParseTuple(args, "nnn:column", &first, &count, &step) || !has_column(self, first, count, step))
        return NULL;
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        PyObject *value = PyLong_FromUnsignedLongLong(atomic_load(self->base + first + i * step));
        if (value == NULL || PyList_SetItem(list, i, value) != 0)
            Py_CLEAR(list);
    }
    return list;
}

typedef struct {
    Word *global, *high_water;
    Word *first; /* the word of slot 0 */
    size_t step, slots;
    const bool *kept;
} Settling;

/* What the owners of the slots hold, or false while one of them has a change in flight. */
static bool sum_if_quiet(const Settling *s, uint64_t *total)
{
    uint64_t count = atomic_load(s->high_water);
    *total = 0;
    if (count > s->slots)
        return false;
    for (size_t slot = 0; slot < count; slot++) {
        uint64_t word = s->kept[slot] ? 0 : atomic_load_explicit(s->first + slot * s->step, memory_order_acquire);
        if (high(word))
            return false;
        *total += low(word);
    }
    return *total <= LOW;
}

/* [P1] settle: the global word is loaded before the slots are read. Pairs with reserve, and with recovery.py. */
static bool settle_once(const Settling *s)
{
    uint64_t total, before = atomic_load(s->global);
    return sum_if_quiet(s, &total) && atomic_compare_exchange_strong(s->global, &before, pack(total, high(before) + 1));
}

static PyObject *words_settle(PyObject *object, PyObject *args)
{
    Words *self = (Words *)object;
    PyObject *global, *high_water, *kept;
    Py_ssize_t first, step, slots, tries;
    Py_ssize_t length;
    char *flags;
    if (!PyArg_ParseTuple(args, "OOnnnSn:settle", &global, &high_water, &first, &step, &slots, &kept, &tries))
        return NULL;
    Settling s = {.global = word_at(self, global)};
    if (s.global == NULL || (s.high_water = word_at(self, high_water)) == NULL || !has_column(self, first, slots, step))
        return NULL;
    if (PyBytes_AsStringAndSize(kept, &flags, &length) != 0)
        return NULL;
    if (length != slots) {
        PyErr_SetString(PyExc_ValueError, "one flag a slot is wanted");
        return NULL;
    }
    s.first = self->base + first, s.step = (size_t)step, s.slots = (size_t)slots, s.kept = (const bool *)flags;
    while (tries-- > 0) {
        if (settle_once(&s))
            Py_RETURN_TRUE;
    }
    Py_RETURN_FALSE;
}

static PyObject *words_close(PyObject *object, PyObject *Py_UNUSED(none))
{
    words_let_go((Words *)object);
    Py_RETURN_NONE;
}

static PyObject *words_detach(PyObject *object, PyObject *Py_UNUSED(none))
{
    Words *self = (Words *)object;
    if (self->base == NULL || self->copy != NULL)
        Py_RETURN_NONE;
    void *copy = malloc(self->count * sizeof(Word));
    if (copy == NULL)
        return PyErr_NoMemory();
    memcpy(copy, self->view.buf, self->count * sizeof(Word));
    words_let_go(self);
    self->base = self->copy = copy;
    Py_RETURN_NONE;
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef words_methods[] = {
    {"load", words_load, METH_O, NULL},
    {"store", FAST(words_store), METH_FASTCALL, NULL},
    {"fetch_add", FAST(words_fetch_add), METH_FASTCALL, NULL},
    {"compare_exchange", FAST(words_compare_exchange), METH_FASTCALL, NULL},
    {"column", words_column, METH_VARARGS, NULL},
    {"settle", words_settle, METH_VARARGS, NULL},
    {"close", words_close, METH_NOARGS, NULL},
    {"detach", words_detach, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot words_slots[] = {
    {Py_tp_doc, "64-bit words over writable memory; every access is atomic and sequentially consistent."},
    {Py_tp_init, words_init},
    {Py_tp_dealloc, words_dealloc},
    {Py_tp_methods, words_methods},
    {0, NULL},
};

static PyType_Spec words_spec = {"hardcap.native.Words", sizeof(Words), 0, Py_TPFLAGS_DEFAULT, words_slots};

/* --- core: reserve and release on one slot ---------------------------------------------------------------------------- */

typedef struct Permit Permit;

typedef struct {
    PyObject_HEAD
    Words *words;
    unsigned born; /* the generation it was made in */
    char closed;
    bool strict;
    int resources;
    size_t global[MAX_RESOURCES], limit[MAX_RESOURCES], own[MAX_RESOURCES], first[MAX_RESOURCES], refused[MAX_RESOURCES];
    size_t slots, step, high_water, admitted, released, oldest;
    PyObject *names[MAX_RESOURCES]; /* interned */
    PyObject *headroom, *timeout;   /* the keywords, interned */
    Permit *eldest, *youngest;      /* permits out, in the order they were taken */
} Core;

/* What is asked for: units, each positive, of resources, each once. */
typedef struct {
    int count;
    int index[MAX_RESOURCES];
    uint64_t units[MAX_RESOURCES];
} Wanted;

static const Wanted SINGLE = {1, {0}, {1}};

static inline uint64_t peek(Word *base, size_t index) { return atomic_load_explicit(base + index, memory_order_relaxed); }

static inline void put(Word *base, size_t index, uint64_t value)
{
    atomic_store_explicit(base + index, value, memory_order_release);
}

static inline void count_call(Word *base, size_t index)
{
    atomic_store_explicit(base + index, peek(base, index) + 1, memory_order_relaxed);
}

/* Whether the core still is this process's: not inherited by a fork, not closed, not unmapped. */
static inline bool is_live(const Core *self)
{
    return self->born == atomic_load_explicit(&generation, memory_order_relaxed) && !self->closed &&
           self->words != NULL && self->words->base != NULL;
}

/* [L1] reserve: the global word is loaded before the limit. Pairs with segment.set_limits. */
static inline bool fits(const Core *self, Word *base, int r, uint64_t global, uint64_t room)
{
    uint64_t limit = peek(base, self->limit[r]);
    return low(global) + room <= limit && limit <= MAX_UNITS;
}

static inline bool take(const Core *self, Word *base, int r, uint64_t units, uint64_t headroom)
{
    Word *word = base + self->global[r];
    uint64_t global = atomic_load_explicit(word, memory_order_acquire);
    uint64_t own = peek(base, self->own[r]);
    if (!fits(self, base, r, global, units + headroom) || low(own) + high(own) + units > LOW)
        return false;
    /* [P1] reserve: pending is visible before the swap. Pairs with settle_once. */
    put(base, self->own[r], own + units * HIGH_ONE);
    while (!atomic_compare_exchange_strong(word, &global, pack(low(global) + units, high(global) + 1))) {
        if (!fits(self, base, r, global, units + headroom)) {
            put(base, self->own[r], own);
            return false;
        }
    }
    return true;
}

/* The end of a release: the count falls, and only then is nothing pending any more. */
static inline void put_back(const Core *self, Word *base, int r, uint64_t units)
{
    atomic_fetch_add(base + self->global[r], HIGH_ONE - units);
    put(base, self->own[r], peek(base, self->own[r]) - units * HIGH_ONE);
}

static inline int reserve_strict(const Core *self, Word *base, const Wanted *wanted, uint64_t headroom)
{
    for (int i = 0; i < wanted->count; i++) {
        if (!take(self, base, wanted->index[i], wanted->units[i], headroom)) {
            for (int k = 0; k < i; k++)
                put_back(self, base, wanted->index[k], wanted->units[k]);
            return wanted->index[i];
        }
    }
    for (int i = 0; i < wanted->count; i++) {
        /* [S2] confirm: held rises and pending falls in one step, after the swap. Pairs with recovery. */
        size_t own = self->own[wanted->index[i]];
        put(base, own, peek(base, own) + wanted->units[i] - wanted->units[i] * HIGH_ONE);
    }
    return ADMITTED;
}

static inline void release_strict(const Core *self, Word *base, const Wanted *wanted)
{
    for (int i = 0; i < wanted->count; i++) {
        size_t own = self->own[wanted->index[i]];
        put(base, own, peek(base, own) - wanted->units[i] + wanted->units[i] * HIGH_ONE); /* [S2] */
    }
    for (int i = 0; i < wanted->count; i++)
        put_back(self, base, wanted->index[i], wanted->units[i]);
}

static inline bool has_room(const Core *self, Word *base, int r, uint64_t count, uint64_t room)
{
    uint64_t limit = peek(base, self->limit[r]), sum = room;
    for (uint64_t slot = 0; slot < count; slot++)
        sum += atomic_load_explicit(base + self->first[r] + slot * self->step, memory_order_acquire);
    return sum <= limit && limit <= MAX_UNITS;
}

static inline int reserve_approximate(const Core *self, Word *base, const Wanted *wanted, uint64_t headroom)
{
    uint64_t count = atomic_load_explicit(base + self->high_water, memory_order_acquire);
    if (count > self->slots)
        return DAMAGED;
    for (int i = 0; i < wanted->count; i++) {
        if (!has_room(self, base, wanted->index[i], count, wanted->units[i] + headroom))
            return wanted->index[i];
    }
    for (int i = 0; i < wanted->count; i++) {
        /* Sequentially consistent: visible before this process's next scan. */
        size_t own = self->own[wanted->index[i]];
        atomic_store(base + own, peek(base, own) + wanted->units[i]);
    }
    return ADMITTED;
}

static inline void release_approximate(const Core *self, Word *base, const Wanted *wanted)
{
    for (int i = 0; i < wanted->count; i++) {
        size_t own = self->own[wanted->index[i]];
        put(base, own, peek(base, own) - wanted->units[i]);
    }
}

/* ADMITTED, or the index of the resource that has no room, or DAMAGED. */
static inline int core_reserve(Core *self, const Wanted *wanted, uint64_t headroom)
{
    Word *base = self->words->base;
    int refused = self->strict ? reserve_strict(self, base, wanted, headroom)
                               : reserve_approximate(self, base, wanted, headroom);
    if (refused == ADMITTED)
        count_call(base, self->admitted);
    return refused;
}

/* ADMITTED, or the index of the resource of which less is held: then nothing is given back. */
static inline int core_release(Core *self, const Wanted *wanted)
{
    Word *base = self->words->base;
    for (int i = 0; i < wanted->count; i++) {
        if (low(peek(base, self->own[wanted->index[i]])) < wanted->units[i])
            return wanted->index[i];
    }
    if (self->strict)
        release_strict(self, base, wanted);
    else
        release_approximate(self, base, wanted);
    count_call(base, self->released);
    return ADMITTED;
}

/* --- core: what Python sees of it ---------------------------------------------------------------------------------------- */

static int read_numbers(PyObject *numbers, size_t *to[], int count, const Words *words)
{
    for (int i = 0; i < count; i++) {
        PyObject *number = PyTuple_GetItem(numbers, i);
        size_t index = number ? PyLong_AsSize_t(number) : (size_t)-1;
        if (index == (size_t)-1 && PyErr_Occurred())
            return -1;
        if (index >= words->count) {
            PyErr_Format(PyExc_IndexError, "word %zu is behind the last of %zu", index, words->count);
            return -1;
        }
        *to[i] = index;
    }
    return 0;
}

static int read_resource(Core *self, int r, PyObject *numbers, PyObject *name)
{
    if (numbers == NULL || name == NULL)
        return -1;
    if (!PyTuple_Check(numbers) || !PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "a tuple of word numbers and a name are wanted for each resource");
        return -1;
    }
    size_t *to[] = {&self->global[r], &self->limit[r], &self->own[r], &self->first[r], &self->refused[r]};
    if (read_numbers(numbers, to, 5, self->words) != 0)
        return -1;
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    set_reference(&self->names[r], name);
    Py_DECREF(name);
    return 0;
}

static int read_resources(Core *self, PyObject *names, PyObject *resources)
{
    Py_ssize_t count = PyTuple_Size(names);
    if (count < 1 || count > MAX_RESOURCES || PyTuple_Size(resources) != count) {
        PyErr_Format(PyExc_ValueError, "1 to %d resources are wanted, a name and a tuple of each", MAX_RESOURCES);
        return -1;
    }
    for (int r = 0; r < count; r++) {
        if (read_resource(self, r, PyTuple_GetItem(resources, r), PyTuple_GetItem(names, r)) != 0)
            return -1;
        if (!has_column(self->words, (Py_ssize_t)self->first[r], (Py_ssize_t)self->slots, (Py_ssize_t)self->step))
            return -1;
    }
    self->resources = (int)count;
    return 0;
}

static int core_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Core *self = (Core *)object;
    PyObject *words, *names, *resources, *fields, *words_type;
    Py_ssize_t slots, step;
    int strict;
    static char *keywords[] = {"words_type", "words", "strict", "names", "resources", "slots", "step", "fields", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOpO!O!nnO!:Core", keywords, &words_type, &words, &strict,
                                     &PyTuple_Type, &names, &PyTuple_Type, &resources, &slots, &step, &PyTuple_Type, &fields))
        return -1;
    if (self->words != NULL || (PyObject *)Py_TYPE(words) != words_type || slots < 1 || step < 1) {
        PyErr_SetString(PyExc_ValueError, "a core is made once, of native words, with slots");
        return -1;
    }
    Py_INCREF(words);
    self->words = (Words *)words;
    self->strict = strict;
    self->slots = (size_t)slots;
    self->step = (size_t)step;
    self->born = atomic_load(&generation);
    self->headroom = PyUnicode_InternFromString("headroom");
    self->timeout = PyUnicode_InternFromString("timeout");
    size_t *to[] = {&self->high_water, &self->admitted, &self->released, &self->oldest};
    if (self->headroom == NULL || self->timeout == NULL || read_numbers(fields, to, 4, self->words) != 0)
        return -1;
    return read_resources(self, names, resources);
}

static void core_dealloc(PyObject *object)
{
    Core *self = (Core *)object;
    Py_CLEAR(self->words);
    Py_CLEAR(self->headroom);
    Py_CLEAR(self->timeout);
    for (int r = 0; r < MAX_RESOURCES; r++)
        Py_CLEAR(self->names[r]);
    free_instance(object);
}

/* Set the error that `_gone` on the Python side makes: closed, or inherited. */
static void *raise_gone(PyObject *core)
{
    PyObject *nothing = PyObject_CallMethod(core, "_check_open", NULL);
    Py_XDECREF(nothing);
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "words are closed");
    return NULL;
}

static void *raise_too_much(Core *self, const Wanted *wanted, int index)
{
    uint64_t units = 0;
    for (int i = 0; i < wanted->count; i++)
        units = wanted->index[i] == index ? wanted->units[i] : units;
    PyObject *error = PyObject_CallMethod((PyObject *)self, "_too_much", "iK", index, units);
    if (error != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}

/* Python's pairs of resource index and units as a Wanted. */
static int read_wanted(const Core *self, PyObject *pairs, Wanted *wanted)
{
    Py_ssize_t count = PyTuple_Check(pairs) ? PyTuple_Size(pairs) : -1;
    if (count < 0 || count > self->resources) {
        PyErr_SetString(PyExc_TypeError, "a tuple of pairs is wanted, one a resource at most");
        return -1;
    }
    wanted->count = (int)count;
    for (int i = 0; i < count; i++) {
        PyObject *pair = PyTuple_GetItem(pairs, i);
        unsigned long long units;
        if (!PyArg_ParseTuple(pair, "iK", &wanted->index[i], &units))
            return -1;
        wanted->units[i] = units;
        if (wanted->index[i] < 0 || wanted->index[i] >= self->resources || units < 1 || units > MAX_UNITS) {
            PyErr_SetString(PyExc_ValueError, "a pair is a resource index and units");
            return -1;
        }
    }
    return 0;
}

static PyObject *show_wanted(const Wanted *wanted)
{
    PyObject *pairs = PyTuple_New(wanted->count);
    for (int i = 0; pairs != NULL && i < wanted->count; i++) {
        PyObject *pair = Py_BuildValue("(iK)", wanted->index[i], (unsigned long long)wanted->units[i]);
        if (pair == NULL || PyTuple_SetItem(pairs, i, pair) != 0)
            Py_CLEAR(pairs);
    }
    return pairs;
}

static PyObject *core_reserve_method(PyObject *object, PyObject *args)
{
    Core *self = (Core *)object;
    PyObject *pairs;
    unsigned long long headroom;
    Wanted wanted;
    if (!PyArg_ParseTuple(args, "OK:reserve", &pairs, &headroom) || read_wanted(self, pairs, &wanted) != 0)
        return NULL;
    if (!is_live(self))
        return raise_gone(object);
    return PyLong_FromLong(core_reserve(self, &wanted, headroom));
}

static PyObject *core_release_method(PyObject *object, PyObject *pairs)
{
    Core *self = (Core *)object;
    Wanted wanted;
    if (read_wanted(self, pairs, &wanted) != 0)
        return NULL;
    if (!is_live(self))
        return raise_gone(object);
    int short_of = core_release(self, &wanted);
    if (short_of != ADMITTED)
        return raise_too_much(self, &wanted, short_of);
    Py_RETURN_NONE;
}

static bool is_resource(const Core *self, long index)
{
    if (index >= 0 && index < self->resources)
        return true;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_IndexError, "no resource of index %ld", index);
    return false;
}

static PyObject *core_refuse(PyObject *object, PyObject *argument)
{
    Core *self = (Core *)object;
    long index = PyLong_AsLong(argument);
    if (!is_resource(self, index))
        return NULL;
    if (is_live(self))
        count_call(self->words->base, self->refused[index]);
    Py_RETURN_NONE;
}

static PyObject *core_held(PyObject *object, PyObject *argument)
{
    Core *self = (Core *)object;
    long index = PyLong_AsLong(argument);
    if (!is_resource(self, index))
        return NULL;
    if (self->words == NULL || self->words->base == NULL)
        return raise_gone(object);
    return PyLong_FromUnsignedLongLong(low(peek(self->words->base, self->own[index])));
}

/* Release whatever is held: the end of this owner. It is marked closed by now. */
static PyObject *core_give_back_all(PyObject *object, PyObject *Py_UNUSED(none))
{
    Core *self = (Core *)object;
    Wanted wanted = {.count = 0};
    if (self->words == NULL || self->words->base == NULL)
        return raise_gone(object);
    for (int r = 0; r < self->resources; r++) {
        uint64_t held = low(peek(self->words->base, self->own[r]));
        if (held) {
            wanted.index[wanted.count] = r;
            wanted.units[wanted.count++] = held;
        }
    }
    if (self->strict)
        release_strict(self, self->words->base, &wanted);
    else
        release_approximate(self, self->words->base, &wanted);
    Py_RETURN_NONE;
}

static PyMethodDef core_methods[] = {
    {"reserve", core_reserve_method, METH_VARARGS, NULL},
    {"release", core_release_method, METH_O, NULL},
    {"refuse", core_refuse, METH_O, NULL},
    {"held", core_held, METH_O, NULL},
    {"give_back_all", core_give_back_all, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyObject *core_inherited(PyObject *object, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((Core *)object)->born != atomic_load(&generation));
}

static PyGetSetDef core_getset[] = {
    {"inherited", core_inherited, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef core_members[] = {
    {"closed", T_BOOL, offsetof(Core, closed), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot core_slots[] = {
    {Py_tp_doc, "Reserve and release on one slot of one segment."},
    {Py_tp_init, core_init},
    {Py_tp_dealloc, core_dealloc},
    {Py_tp_methods, core_methods},
    {Py_tp_members, core_members},
    {Py_tp_getset, core_getset},
    {0, NULL},
};

static PyType_Spec core_spec = {
    "hardcap.native.Core", sizeof(Core), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, core_slots,
};

/* --- current: the admission that a connection uses, where the limiter finds it without asking Python --------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *admission;
    Core *core; /* the same, if it is a core; NULL for a stand-in */
    PyTypeObject *core_type;
} Current;

static int current_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Current *self = (Current *)object;
    PyObject *core_type;
    static char *names[] = {"core_type", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:Current", names, &PyType_Type, &core_type))
        return -1;
    set_reference((PyObject **)&self->core_type, core_type);
    return 0;
}

static int current_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Current *)object)->admission);
    Py_VISIT(((Current *)object)->core_type);
    return 0;
}

static int current_clear(PyObject *object)
{
    ((Current *)object)->core = NULL;
    Py_CLEAR(((Current *)object)->admission);
    Py_CLEAR(((Current *)object)->core_type);
    return 0;
}

static void current_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    current_clear(object);
    free_instance(object);
}

static PyObject *current_get(PyObject *object, void *Py_UNUSED(closure))
{
    PyObject *admission = ((Current *)object)->admission;
    admission = admission ? admission : Py_None;
    Py_INCREF(admission);
    return admission;
}

static int current_set(PyObject *object, PyObject *admission, void *Py_UNUSED(closure))
{
    Current *self = (Current *)object;
    if (admission == NULL || self->core_type == NULL) {
        PyErr_SetString(PyExc_ValueError, "an admission is replaced, never removed");
        return -1;
    }
    self->core = PyObject_TypeCheck(admission, self->core_type) ? (Core *)admission : NULL;
    set_reference(&self->admission, admission);
    return 0;
}

static PyGetSetDef current_getset[] = {
    {"admission", current_get, current_set, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot current_slots[] = {
    {Py_tp_doc, "Holds the admission in use."},
    {Py_tp_init, current_init},
    {Py_tp_traverse, current_traverse},
    {Py_tp_clear, current_clear},
    {Py_tp_dealloc, current_dealloc},
    {Py_tp_getset, current_getset},
    {0, NULL},
};

static PyType_Spec current_spec = {
    "hardcap.native.Current", sizeof(Current), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, current_slots,
};

/* --- permit ---------------------------------------------------------------------------------------------------------------- */

struct Permit {
    PyObject_HEAD
    PyObject *weak_references;
    PyObject *connection; /* kept alive: one that is collected gives back all it holds */
    Core *core;
    Permit *elder, *younger;
    uint64_t taken_at; /* Unix nanoseconds, to the kernel's tick */
    Wanted wanted;
    bool out;
};

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME_COARSE, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void show_oldest(const Core *core)
{
    put(core->words->base, core->oldest, core->eldest ? core->eldest->taken_at : 0);
}

static void permit_enlist(Permit *self)
{
    Core *core = self->core;
    self->elder = core->youngest;
    *(core->youngest ? &core->youngest->younger : &core->eldest) = self;
    core->youngest = self;
    if (core->eldest == self)
        show_oldest(core);
}

static void permit_strike(Permit *self)
{
    Core *core = self->core;
    bool was_eldest = core->eldest == self;
    *(self->elder ? &self->elder->younger : &core->eldest) = self->younger;
    *(self->younger ? &self->younger->elder : &core->youngest) = self->elder;
    if (was_eldest && is_live(core))
        show_oldest(core);
}

static PyObject *permit_make(PyTypeObject *type, PyObject *connection, Core *core, const Wanted *wanted)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Permit *self = (Permit *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    set_reference(&self->connection, connection);
    set_reference((PyObject **)&self->core, (PyObject *)core);
    self->wanted = *wanted;
    self->taken_at = now();
    self->out = true;
    permit_enlist(self);
    return (PyObject *)self;
}

/* 1: given back; 0: nothing to give back, or not ours to; -1: an error is set. */
static int permit_give_back(Permit *self)
{
    if (!self->out)
        return 0;
    self->out = false;
    permit_strike(self);
    if (!is_live(self->core))
        return 0;
    int short_of = core_release(self->core, &self->wanted);
    if (short_of == ADMITTED)
        return 1;
    raise_too_much(self->core, &self->wanted, short_of);
    return -1;
}

static PyObject *permit_release(PyObject *object, PyObject *Py_UNUSED(none))
{
    int given = permit_give_back((Permit *)object);
    return given < 0 ? NULL : PyBool_FromLong(given);
}

static PyObject *permit_enter(PyObject *object, PyObject *Py_UNUSED(none))
{
    Py_INCREF(object);
    return object;
}

static PyObject *permit_exit(PyObject *object, PyObject *const *Py_UNUSED(args), Py_ssize_t nargs)
{
    if (!takes("__exit__", nargs, 3) || permit_give_back((Permit *)object) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static bool is_finalizing(void)
{
    PyObject *function = PySys_GetObject("is_finalizing");
    PyObject *answer = function && function != Py_None ? PyObject_CallNoArgs(function) : NULL;
    bool finalizing = answer == NULL || PyObject_IsTrue(answer) != 0;
    Py_XDECREF(answer);
    PyErr_Clear();
    return finalizing;
}

/* Collected while held: released, and told of. */
static void permit_forgotten(Permit *self)
{
    PyObject *type, *value, *trace;
    if (!is_live(self->core) || is_finalizing())
        return;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *pairs = permit_give_back(self) < 0 ? NULL : show_wanted(&self->wanted);
    PyObject *told = pairs ? PyObject_CallMethod(self->connection, "forgotten", "O", pairs) : NULL;
    if (told == NULL)
        PyErr_WriteUnraisable((PyObject *)Py_TYPE((PyObject *)self));
    Py_XDECREF(pairs);
    Py_XDECREF(told);
    PyErr_Restore(type, value, trace);
}

static void permit_dealloc(PyObject *object)
{
    Permit *self = (Permit *)object;
    if (self->out)
        permit_forgotten(self);
    if (self->out)
        permit_strike(self);
    if (self->weak_references != NULL)
        PyObject_ClearWeakRefs(object);
    Py_CLEAR(self->connection);
    Py_CLEAR(self->core);
    free_instance(object);
}

static PyObject *permit_released(PyObject *object, void *Py_UNUSED(closure))
{
    Permit *self = (Permit *)object;
    return PyBool_FromLong(!self->out || !is_live(self->core));
}

static PyObject *permit_wanted(PyObject *object, void *Py_UNUSED(closure))
{
    return show_wanted(&((Permit *)object)->wanted);
}

static PyMethodDef permit_methods[] = {
    {"release", permit_release, METH_NOARGS, NULL},
    {"__enter__", permit_enter, METH_NOARGS, NULL},
    {"__exit__", FAST(permit_exit), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef permit_getset[] = {
    {"released", permit_released, NULL, NULL, NULL},
    {"_wanted", permit_wanted, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef permit_members[] = {
    {"_connection", T_OBJECT_EX, offsetof(Permit, connection), READONLY, NULL},
    {"_admission", T_OBJECT_EX, offsetof(Permit, core), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Permit, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot permit_slots[] = {
    {Py_tp_dealloc, permit_dealloc},
    {Py_tp_methods, permit_methods},
    {Py_tp_getset, permit_getset},
    {Py_tp_members, permit_members},
    {0, NULL},
};

static PyType_Spec permit_spec = {
    "hardcap.native.Permit", sizeof(Permit), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, permit_slots,
};

/* --- limiter ------------------------------------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    PyObject *weak_references;
    Current *connection;
    PyTypeObject *permit_type;
} Limiter;

static int limiter_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Limiter *self = (Limiter *)object;
    PyObject *connection, *current_type, *permit_type;
    static char *names[] = {"connection", "current_type", "permit_type", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O!:Limiter", names, &connection, &PyType_Type, &current_type,
                                     &PyType_Type, &permit_type))
        return -1;
    if (!PyObject_TypeCheck(connection, (PyTypeObject *)current_type)) {
        PyErr_SetString(PyExc_TypeError, "a native connection is wanted");
        return -1;
    }
    set_reference((PyObject **)&self->connection, connection);
    set_reference((PyObject **)&self->permit_type, permit_type);
    return 0;
}

static int limiter_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Limiter *)object)->connection);
    Py_VISIT(((Limiter *)object)->permit_type);
    return 0;
}

static int limiter_clear(PyObject *object)
{
    Py_CLEAR(((Limiter *)object)->connection);
    Py_CLEAR(((Limiter *)object)->permit_type);
    return 0;
}

static void limiter_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    if (((Limiter *)object)->weak_references != NULL)
        PyObject_ClearWeakRefs(object);
    limiter_clear(object);
    free_instance(object);
}

/* The slow way to the core: attach after a fork, or raise what there is to raise. A borrowed reference. */
static Core *limiter_attach(Limiter *self)
{
    if (self->connection == NULL) {
        PyErr_SetString(PyExc_ValueError, "this limiter was never opened");
        return NULL;
    }
    PyObject *admission = PyObject_CallMethod((PyObject *)self->connection, "live", NULL);
    Py_XDECREF(admission); /* the connection holds it */
    if (admission == NULL)
        return NULL;
    Core *core = self->connection->core;
    if (core == NULL || !is_live(core))
        PyErr_SetString(PyExc_RuntimeError, "the connection is not attached");
    return core != NULL && is_live(core) ? core : NULL;
}

static inline Core *limiter_core(Limiter *self)
{
    Core *core = self->connection != NULL ? self->connection->core : NULL;
    return core != NULL && is_live(core) ? core : limiter_attach(self);
}

/* An exact int from 0 to 2**31 - 1; everything else is for Python to judge. */
static bool is_units(PyObject *value, uint64_t *units)
{
    int overflow;
    if (!PyLong_CheckExact(value))
        return false;
    long number = PyLong_AsLongAndOverflow(value, &overflow);
    *units = (uint64_t)number;
    return !overflow && number >= 0 && *units <= MAX_UNITS;
}

static bool is_name(PyObject *name, PyObject *known)
{
    return name == known || PyUnicode_Compare(name, known) == 0;
}

typedef struct {
    Core *core;
    PyObject *const *args;
    Py_ssize_t nargs, named;
    PyObject *kwnames;
    PyObject *headroom, *timeout; /* borrowed; NULL: not given */
    bool takes_headroom, takes_timeout;
} Call;

/* What is asked for, if all of it is plain and right. False: let Python judge, and raise. */
static bool read_plainly(Call *call, Wanted *wanted)
{
    bool by_name = false, first_given = call->nargs == 1, sound = call->nargs <= 1;
    wanted->count = 0;
    if (first_given) {
        sound = is_units(call->args[0], &wanted->units[0]) && wanted->units[0] > 0;
        wanted->index[wanted->count++] = 0;
    }
    for (Py_ssize_t i = 0; i < call->named; i++) {
        PyObject *name = PyTuple_GetItem(call->kwnames, i), *value = call->args[call->nargs + i];
        int r = 0;
        if (call->takes_headroom && is_name(name, call->core->headroom)) {
            call->headroom = value;
            continue;
        }
        if (call->takes_timeout && is_name(name, call->core->timeout)) {
            call->timeout = value;
            continue;
        }
        by_name = true;
        while (r < call->core->resources && !is_name(name, call->core->names[r]))
            r++;
        if (r == call->core->resources || (r == 0 && first_given) || !sound || !is_units(value, &wanted->units[wanted->count])) {
            sound = false;
            continue;
        }
        if (wanted->units[wanted->count] > 0)
            wanted->index[wanted->count++] = r;
    }
    if (!first_given && !by_name)
        *wanted = SINGLE;
    return sound && wanted->count > 0;
}

/* Python's judgement of the same call: the connection's `wanted(arguments, amounts)`. */
static int read_by_python(Limiter *self, Call *call, Wanted *wanted)
{
    PyObject *arguments = PyTuple_New(call->nargs), *amounts = PyDict_New(), *pairs = NULL;
    for (Py_ssize_t i = 0; arguments != NULL && i < call->nargs; i++) {
        Py_INCREF(call->args[i]);
        PyTuple_SetItem(arguments, i, call->args[i]);
    }
    for (Py_ssize_t i = 0; amounts != NULL && i < call->named; i++) {
        PyObject *value = call->args[call->nargs + i];
        if (value != call->headroom && value != call->timeout)
            PyDict_SetItem(amounts, PyTuple_GetItem(call->kwnames, i), value);
    }
    if (arguments != NULL && amounts != NULL)
        pairs = PyObject_CallMethod((PyObject *)self->connection, "wanted", "OO", arguments, amounts);
    Py_XDECREF(arguments);
    Py_XDECREF(amounts);
    int done = pairs == NULL ? -1 : read_wanted(call->core, pairs, wanted);
    Py_XDECREF(pairs);
    return done;
}

/* The units to be left free. -1 with an error set by Python's check. */
static int read_headroom(Limiter *self, PyObject *given, uint64_t *headroom)
{
    *headroom = 0;
    if (given == NULL || is_units(given, headroom))
        return 0;
    PyObject *checked = PyObject_CallMethod((PyObject *)self->connection, "headroom", "O", given);
    *headroom = checked ? PyLong_AsUnsignedLongLong(checked) : 0;
    Py_XDECREF(checked);
    return PyErr_Occurred() ? -1 : 0;
}

static int read_call(Limiter *self, Call *call, Wanted *wanted, uint64_t *headroom)
{
    *headroom = 0;
    if (call->nargs == 0 && call->kwnames == NULL) {
        *wanted = SINGLE;
        return 0;
    }
    call->named = call->kwnames ? PyTuple_Size(call->kwnames) : 0;
    if (!read_plainly(call, wanted) && read_by_python(self, call, wanted) != 0)
        return -1;
    return read_headroom(self, call->headroom, headroom);
}

/* After a refusal: Python sweeps for dead owners, asks once more, and counts. ADMITTED, the index, or -3 for an error. */
#define FAILED (-3)

static int try_again(Limiter *self, const Wanted *wanted, uint64_t headroom, int refused)
{
    PyObject *pairs = show_wanted(wanted);
    if (pairs == NULL)
        return FAILED;
    PyObject *answer = PyObject_CallMethod((PyObject *)self->connection, "try_again", "OKi", pairs, headroom, refused);
    Py_DECREF(pairs);
    long again = answer ? PyLong_AsLong(answer) : FAILED;
    Py_XDECREF(answer);
    return PyErr_Occurred() ? FAILED : (int)again;
}

static PyObject *limiter_reserve(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Limiter *self = (Limiter *)object;
    Wanted wanted;
    uint64_t headroom;
    Core *core = limiter_core(self);
    if (core == NULL)
        return NULL;
    Call call = {.core = core, .args = args, .nargs = nargs, .kwnames = kwnames, .takes_headroom = true};
    if (read_call(self, &call, &wanted, &headroom) != 0)
        return NULL;
    int refused = core_reserve(core, &wanted, headroom);
    if (refused != ADMITTED)
        refused = try_again(self, &wanted, headroom, refused);
    return refused == FAILED ? NULL : PyBool_FromLong(refused == ADMITTED);
}

static PyObject *limiter_release(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Limiter *self = (Limiter *)object;
    Wanted wanted;
    uint64_t headroom;
    Core *core = limiter_core(self);
    if (core == NULL)
        return NULL;
    Call call = {.core = core, .args = args, .nargs = nargs, .kwnames = kwnames};
    if (read_call(self, &call, &wanted, &headroom) != 0)
        return NULL;
    int short_of = core_release(core, &wanted);
    if (short_of != ADMITTED)
        return raise_too_much(core, &wanted, short_of);
    Py_RETURN_NONE;
}

static int check_timeout(Limiter *self, PyObject *given)
{
    PyObject *nothing = given ? PyObject_CallMethod((PyObject *)self->connection, "timeout", "O", given) : NULL;
    Py_XDECREF(nothing);
    return given == NULL || nothing != NULL ? 0 : -1;
}

static PyObject *raise_exceeded(Limiter *self, const Wanted *wanted, int refused)
{
    PyObject *pairs = show_wanted(wanted);
    PyObject *error =
        pairs ? PyObject_CallMethod((PyObject *)self->connection, "exceeded", "Oi", pairs, refused) : NULL;
    Py_XDECREF(pairs);
    if (error != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}

static PyObject *limiter_admit(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Limiter *self = (Limiter *)object;
    Wanted wanted;
    uint64_t headroom;
    Core *core = limiter_core(self);
    if (core == NULL)
        return NULL;
    Call call = {.core = core, .args = args, .nargs = nargs, .kwnames = kwnames, .takes_headroom = true, .takes_timeout = true};
    if (read_call(self, &call, &wanted, &headroom) != 0 || check_timeout(self, call.timeout) != 0)
        return NULL;
    int refused = core_reserve(core, &wanted, headroom);
    if (refused != ADMITTED)
        refused = try_again(self, &wanted, headroom, refused);
    if (refused == FAILED)
        return NULL;
    if (refused != ADMITTED)
        return raise_exceeded(self, &wanted, refused);
    return permit_make(self->permit_type, (PyObject *)self->connection, self->connection->core, &wanted);
}

static PyMethodDef limiter_methods[] = {
    {"reserve", FAST(limiter_reserve), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"release", FAST(limiter_release), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"admit", FAST(limiter_admit), METH_FASTCALL | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef limiter_members[] = {
    {"_connection", T_OBJECT_EX, offsetof(Limiter, connection), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Limiter, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot limiter_slots[] = {
    {Py_tp_init, limiter_init},
    {Py_tp_traverse, limiter_traverse},
    {Py_tp_clear, limiter_clear},
    {Py_tp_dealloc, limiter_dealloc},
    {Py_tp_methods, limiter_methods},
    {Py_tp_members, limiter_members},
    {0, NULL},
};

static PyType_Spec limiter_spec = {
    "hardcap.native.Limiter", sizeof(Limiter), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, limiter_slots,
};

/* --- module --------------------------------------------------------------------------------------------------------------------- */

static PyObject *derive_from(PyObject *module, PyType_Spec *spec, PyObject *base)
{
    PyObject *bases = PyTuple_Pack(1, base);
    PyObject *type = bases ? PyType_FromModuleAndSpec(module, spec, bases) : NULL;
    Py_XDECREF(bases);
    return type;
}

static PyObject *limiter_type(PyObject *module, PyObject *base) { return derive_from(module, &limiter_spec, base); }

static PyObject *permit_type(PyObject *module, PyObject *base) { return derive_from(module, &permit_spec, base); }

static PyMethodDef module_methods[] = {
    {"guard", guard, METH_O, "Close this descriptor in every forked child, also one forked from C."},
    {"unguard", unguard, METH_O, "Forget a descriptor that is about to be closed."},
    {"forks", forks, METH_NOARGS, "How many forks lie between the process that loaded this and the present one."},
    {"limiter_type", limiter_type, METH_O, "The native limiter, derived from the given class without a layout."},
    {"permit_type", permit_type, METH_O, "The native permit, derived from the given class without a layout."},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    int done = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return done;
}

static int module_exec(PyObject *module)
{
    static bool watching;
    if (!watching) {
        for (size_t i = 0; i < MAX_GUARDED; i++)
            atomic_store(&guarded[i].descriptor, -1);
        if (pthread_atfork(NULL, NULL, in_forked_child) != 0) {
            PyErr_NoMemory();
            return -1;
        }
        watching = true;
    }
    return add_type(module, &words_spec) || add_type(module, &core_spec) || add_type(module, &current_spec) ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "hardcap.native",
    .m_doc = "The hot steps of admission, in C.",
    .m_methods = module_methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit_native(void);

PyMODINIT_FUNC PyInit_native(void) { return PyModuleDef_Init(&module_definition); }
