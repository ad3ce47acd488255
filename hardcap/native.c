/* The hot steps in C: reserve, release, the permit, and settle's scan and swap, as strict.py, approximate.py and
 * recovery.py have them. Those are the reference; a step's counterpart here carries the same tag.
 *
 * Every operation runs in one piece under the GIL, so threads, signal handlers and finalizers of one process never
 * meet in the middle of one, and the words of a process's own slot have one writer: a plain store suffices for them.
 * What calls Python is another matter: anything may have been closed, or forked, by the time it returns.
 * Nothing here knows the layout: word numbers come from layout.py.
 */
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <structmember.h>

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_RESOURCES 4
#define MAX_UNITS ((uint64_t)INT32_MAX)
#define LOW ((uint64_t)UINT32_MAX)
#define HIGH_ONE ((uint64_t)1 << 32)

/* What asking for units gives, where it is not the index of the resource that has no room. */
enum { ADMITTED = -1, DAMAGED = -2, FAILED = -3 }; /* FAILED: a Python error is set */

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

/* Inlined wherever it is called, so that the commonest call, for one unit, is compiled for just that. */
#define HOT static inline __attribute__((always_inline))

typedef _Atomic(uint64_t) Word;

static inline uint64_t low(uint64_t word) { return word & LOW; }
static inline uint64_t high(uint64_t word) { return word >> 32; }
static inline uint64_t pack(uint64_t low_half, uint64_t high_half) { return (low_half & LOW) | high_half << 32; }

static void free_instance(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyTypeObject *base_of(PyTypeObject *type) { return PyType_GetSlot(type, Py_tp_base); }

/* Whether it is the type of this module that is taken apart by `dealloc`: no other has that layout. */
static bool is_type(PyTypeObject *type, destructor dealloc)
{
    if (type != NULL && (destructor)PyType_GetSlot(type, Py_tp_dealloc) == dealloc)
        return true;
    PyErr_SetString(PyExc_TypeError, "a type of the native core is wanted");
    return false;
}

/* --- forks ---------------------------------------------------------------------------------------------------------
 * A child forked from C runs no Python hook. What it inherited is told by the generation, and the descriptors whose
 * locks prove that the parent lives are closed before any other code of the child runs. */

typedef struct Guarded {
    _Atomic int descriptor; /* -1: free for another */
    dev_t device;
    ino_t inode;
    struct Guarded *next;
} Guarded;

static _Atomic unsigned generation;
static Guarded *_Atomic guarded; /* never shrinks, so that a fork may come at any instant */

static bool is_same_file(const Guarded *entry, int descriptor)
{
    struct stat status;
    return fstat(descriptor, &status) == 0 && status.st_dev == entry->device && status.st_ino == entry->inode;
}

static void in_forked_child(void)
{
    atomic_fetch_add(&generation, 1);
    for (Guarded *entry = atomic_load(&guarded); entry != NULL; entry = entry->next) {
        int descriptor = atomic_exchange(&entry->descriptor, -1);
        if (descriptor >= 0 && is_same_file(entry, descriptor))
            close(descriptor);
    }
}

/* The first entry of that descriptor, or NULL. */
static Guarded *find_guarded(int descriptor)
{
    Guarded *entry = atomic_load(&guarded);
    while (entry != NULL && atomic_load(&entry->descriptor) != descriptor)
        entry = entry->next;
    return entry;
}

static Guarded *add_guarded(void)
{
    Guarded *entry = malloc(sizeof(Guarded));
    if (entry == NULL)
        return NULL;
    atomic_init(&entry->descriptor, -1);
    entry->next = atomic_load(&guarded);
    atomic_store(&guarded, entry);
    return entry;
}

static PyObject *guard(PyObject *Py_UNUSED(module), PyObject *argument)
{
    struct stat status;
    int descriptor = PyObject_AsFileDescriptor(argument);
    if (descriptor < 0)
        return NULL;
    if (fstat(descriptor, &status) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Guarded *entry = find_guarded(-1);
    if (entry == NULL && (entry = add_guarded()) == NULL)
        return PyErr_NoMemory();
    entry->device = status.st_dev;
    entry->inode = status.st_ino;
    atomic_store(&entry->descriptor, descriptor);
    Py_RETURN_NONE;
}

static PyObject *unguard(PyObject *Py_UNUSED(module), PyObject *argument)
{
    int descriptor = PyObject_AsFileDescriptor(argument);
    if (descriptor < 0)
        return NULL;
    for (Guarded *entry; (entry = find_guarded(descriptor)) != NULL;)
        atomic_store(&entry->descriptor, -1);
    Py_RETURN_NONE;
}

static PyObject *forks(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromUnsignedLong(atomic_load(&generation));
}

/* --- words: the seam, natively ------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    Py_buffer view;
    Word *base; /* NULL: not there yet, or closed */
    Py_ssize_t count;
    void *copy; /* what base is, once detached */
    bool made;
} Words;

static int words_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Words *self = (Words *)object;
    PyObject *memory;
    static char *names[] = {"memory", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Words", names, &memory))
        return -1;
    if (self->made) {
        PyErr_SetString(PyExc_ValueError, "words are made once");
        return -1;
    }
    self->made = true; /* whatever comes of it */
    if (PyObject_GetBuffer(memory, &self->view, PyBUF_WRITABLE) != 0)
        return -1;
    if ((uintptr_t)self->view.buf % sizeof(Word) != 0) {
        PyBuffer_Release(&self->view);
        PyErr_SetString(PyExc_ValueError, "memory is not aligned to 8 bytes");
        return -1;
    }
    self->base = self->view.buf;
    self->count = self->view.len / (Py_ssize_t)sizeof(Word);
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

static void words_dealloc(PyObject *object)
{
    words_let_go((Words *)object);
    free_instance(object);
}

/* Whether all of `count` words, `step` apart, are there from `first`; else an error is set. */
static bool has_column(const Words *self, Py_ssize_t first, Py_ssize_t count, Py_ssize_t step)
{
    if (self->base == NULL)
        PyErr_SetString(PyExc_ValueError, "words are closed");
    else if (first < 0 || count < 0 || step < 1)
        PyErr_SetString(PyExc_IndexError, "a column begins at word 0 or later and goes up");
    else if (count && (first >= self->count || count - 1 > (self->count - 1 - first) / step))
        PyErr_Format(PyExc_IndexError, "word %zd + %zd x %zd is behind the last of %zd", first, count - 1, step,
                     self->count);
    else
        return true;
    return false;
}

static bool has_word(const Words *self, Py_ssize_t index) { return has_column(self, index, 1, 1); }

static PyObject *words_load(PyObject *object, PyObject *args)
{
    Words *self = (Words *)object;
    Py_ssize_t index;
    if (!PyArg_ParseTuple(args, "n:load", &index) || !has_word(self, index))
        return NULL;
    return PyLong_FromUnsignedLongLong(atomic_load(self->base + index));
}

static PyObject *words_store(PyObject *object, PyObject *args)
{
    Words *self = (Words *)object;
    Py_ssize_t index;
    unsigned long long value;
    if (!PyArg_ParseTuple(args, "nK:store", &index, &value) || !has_word(self, index))
        return NULL;
    atomic_store(self->base + index, value);
    Py_RETURN_NONE;
}

static PyObject *words_fetch_add(PyObject *object, PyObject *args)
{
    Words *self = (Words *)object;
    Py_ssize_t index;
    unsigned long long delta;
    if (!PyArg_ParseTuple(args, "nK:fetch_add", &index, &delta) || !has_word(self, index))
        return NULL;
    return PyLong_FromUnsignedLongLong(atomic_fetch_add(self->base + index, delta));
}

static PyObject *words_compare_exchange(PyObject *object, PyObject *args)
{
    Words *self = (Words *)object;
    Py_ssize_t index;
    unsigned long long expected, desired;
    if (!PyArg_ParseTuple(args, "nKK:compare_exchange", &index, &expected, &desired) || !has_word(self, index))
        return NULL;
    uint64_t found = expected;
    return PyBool_FromLong(atomic_compare_exchange_strong(self->base + index, &found, desired));
}

static PyObject *words_column(PyObject *object, PyObject *args)
{
    Words *self = (Words *)object;
    Py_ssize_t first, count, step;
    if (!PyArg_ParseTuple(args, "nnn:column", &first, &count, &step) || !has_column(self, first, count, step))
        return NULL;
    PyObject *list = PyList_New(count);
    if (list == NULL || !has_column(self, first, count, step)) { /* closed by a finalizer, if that collected garbage */
        Py_XDECREF(list);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = PyLong_FromUnsignedLongLong(atomic_load(self->base + first + i * step));
        if (value == NULL || PyList_SetItem(list, i, value) != 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

typedef struct {
    Word *global, *high_water, *first; /* first: the word of slot 0 */
    Py_ssize_t step, slots;
    const char *kept; /* a flag a slot */
} Settling;

/* What the owners of the slots hold, or false while one of them has a change in flight. [R1] */
static bool sum_if_quiet(const Settling *s, uint64_t *total)
{
    uint64_t count = atomic_load(s->high_water); /* [H1] after the global word */
    if (count > (uint64_t)s->slots)
        return false;
    *total = 0;
    for (Py_ssize_t slot = 0; slot < (Py_ssize_t)count; slot++) {
        uint64_t word = s->kept[slot] ? 0 : atomic_load(s->first + slot * s->step);
        if (high(word))
            return false;
        *total += low(word);
    }
    return *total <= LOW; /* more is damage */
}

/* [P1] settle: the global word is loaded before the slots are read. */
static bool settle_once(const Settling *s)
{
    uint64_t total, before = atomic_load(s->global);
    return sum_if_quiet(s, &total) && atomic_compare_exchange_strong(s->global, &before, pack(total, high(before) + 1));
}

static PyObject *words_settle(PyObject *object, PyObject *args)
{
    Words *self = (Words *)object;
    Py_ssize_t global, high_water, first, tries;
    PyObject *kept;
    Settling s;
    /* No "#" in a format: what it means depends on the headers, and a library built with those of 3.13 fails on 3.11. */
    if (!PyArg_ParseTuple(args, "nnnnO!n:settle", &global, &high_water, &first, &s.step, &PyBytes_Type, &kept, &tries))
        return NULL;
    s.kept = PyBytes_AsString(kept), s.slots = PyBytes_Size(kept);
    if (!has_word(self, global) || !has_word(self, high_water) || !has_column(self, first, s.slots, s.step))
        return NULL;
    s.global = self->base + global, s.high_water = self->base + high_water, s.first = self->base + first;
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
    size_t size = (size_t)self->count * sizeof(Word);
    void *copy = malloc(size);
    if (copy == NULL)
        return PyErr_NoMemory();
    memcpy(copy, self->view.buf, size);
    words_let_go(self);
    self->base = self->copy = copy;
    Py_RETURN_NONE;
}

static PyObject *words_address(PyObject *object, PyObject *args)
{
    Words *self = (Words *)object;
    Py_ssize_t index;
    if (!PyArg_ParseTuple(args, "n:address", &index) || !has_word(self, index))
        return NULL;
    return PyLong_FromVoidPtr(self->base + index);
}

static PyMethodDef words_methods[] = {
    {"load", words_load, METH_VARARGS, NULL},
    {"store", words_store, METH_VARARGS, NULL},
    {"fetch_add", words_fetch_add, METH_VARARGS, NULL},
    {"compare_exchange", words_compare_exchange, METH_VARARGS, NULL},
    {"column", words_column, METH_VARARGS, NULL},
    {"settle", words_settle, METH_VARARGS, NULL},
    {"address", words_address, METH_VARARGS, NULL},
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

/* --- core: reserve and release on one slot ------------------------------------------------------------------------ */

typedef struct Permit Permit;

/* The words of one resource, by number, and its name. */
typedef struct {
    Py_ssize_t global, limit, own, first, refused; /* first: of slot 0 */
    PyObject *name;
} Resource;

typedef struct {
    PyObject_HEAD
    Words *words;  /* NULL until the core is complete */
    unsigned born; /* the generation it was made in */
    char closed;
    bool strict;
    int count;
    Resource resources[MAX_RESOURCES];
    Py_ssize_t slots, step, high_water, bell, admitted, released, oldest;
    Permit *eldest, *youngest; /* permits out, in the order they were taken */
} Core;

/* What is asked for: units, each positive, of resources, each once. */
typedef struct {
    int count;
    int index[MAX_RESOURCES];
    uint64_t units[MAX_RESOURCES];
} Wanted;

static const Wanted SINGLE = {1, {0}, {1}};

static inline uint64_t peek(Word *base, Py_ssize_t index)
{
    return atomic_load_explicit(base + index, memory_order_relaxed);
}

static inline void put(Word *base, Py_ssize_t index, uint64_t value)
{
    atomic_store_explicit(base + index, value, memory_order_release);
}

static inline void count_call(Word *base, Py_ssize_t index)
{
    atomic_store_explicit(base + index, peek(base, index) + 1, memory_order_relaxed);
}

/* Whether the core still is this process's: complete, not inherited by a fork, not closed, not unmapped. */
HOT bool is_live(const Core *self)
{
    return self->born == atomic_load_explicit(&generation, memory_order_relaxed) && !self->closed &&
           self->words != NULL && self->words->base != NULL;
}

/* Whether a limit stands in the way, or only what a word can hold. Known wherever it is compiled in. */
typedef enum { ENFORCED, DRY_RUN } Rule;

/* [L1] reserve: the global word, an acquire, is loaded before the limit. */
HOT bool fits(Word *base, const Resource *r, uint64_t global, uint64_t room, Rule rule)
{
    if (rule == DRY_RUN)
        return low(global) + room <= LOW;
    uint64_t limit = peek(base, r->limit);
    return low(global) + room <= limit && limit <= MAX_UNITS;
}

HOT bool take(Word *base, const Resource *r, uint64_t units, uint64_t headroom, Rule rule)
{
    Word *word = base + r->global;
    uint64_t global = atomic_load_explicit(word, memory_order_acquire);
    uint64_t own = peek(base, r->own);
    if (!fits(base, r, global, units + headroom, rule) || low(own) + high(own) + units > LOW)
        return false;
    /* [P1] reserve: pending, a release, is visible before the swap. */
    put(base, r->own, own + units * HIGH_ONE);
    while (!atomic_compare_exchange_strong(word, &global, pack(low(global) + units, high(global) + 1))) {
        if (!fits(base, r, global, units + headroom, rule)) {
            put(base, r->own, own);
            return false;
        }
    }
    return true;
}

/* The end of a release: the count falls, and only then is nothing pending any more. */
HOT void put_back(Word *base, const Resource *r, uint64_t units)
{
    atomic_fetch_add(base + r->global, HIGH_ONE - units);
    put(base, r->own, peek(base, r->own) - units * HIGH_ONE);
}

static __attribute__((cold, noinline)) void wake_all(Word *bell)
{
    atomic_store(bell, 0);
    syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* [W1] release: strict's swap comes before this load, both sequentially consistent; approximate's store may not. */
HOT void ring(const Core *self, Word *base)
{
    if (atomic_load(base + self->bell) != 0)
        wake_all(base + self->bell);
}

HOT int reserve_strict(const Core *self, Word *base, const Wanted *wanted, uint64_t headroom, Rule rule)
{
    for (int i = 0; i < wanted->count; i++) {
        if (!take(base, &self->resources[wanted->index[i]], wanted->units[i], headroom, rule)) {
            for (int k = 0; k < i; k++)
                put_back(base, &self->resources[wanted->index[k]], wanted->units[k]);
            if (i) /* a waiter may have been refused meanwhile what was taken for nothing [W1] */
                ring(self, base);
            return wanted->index[i];
        }
    }
    for (int i = 0; i < wanted->count; i++) {
        /* [S2] confirm: held rises and pending falls in one step, a release, after the swap. */
        Py_ssize_t own = self->resources[wanted->index[i]].own;
        put(base, own, peek(base, own) + wanted->units[i] - wanted->units[i] * HIGH_ONE);
    }
    return ADMITTED;
}

HOT void release_strict(const Core *self, Word *base, const Wanted *wanted)
{
    for (int i = 0; i < wanted->count; i++) {
        /* [S2] mark: held falls and pending rises in one step, before the count falls. */
        Py_ssize_t own = self->resources[wanted->index[i]].own;
        put(base, own, peek(base, own) - wanted->units[i] + wanted->units[i] * HIGH_ONE);
    }
    for (int i = 0; i < wanted->count; i++)
        put_back(base, &self->resources[wanted->index[i]], wanted->units[i]);
}

/* [A1] scan: sequentially consistent, so that it sees what this process wrote before it, as all others do. */
HOT bool has_room(const Core *self, Word *base, const Resource *r, Py_ssize_t slots, uint64_t room, Rule rule)
{
    uint64_t limit = peek(base, r->limit), sum = room;
    if (peek(base, r->own) > LOW - room) /* damage: it may not be in the sum */
        return false;
    if (rule == DRY_RUN)
        return true;
    for (Py_ssize_t slot = 0; slot < slots; slot++) {
        uint64_t held = atomic_load(base + r->first + slot * self->step);
        sum += held <= LOW ? held : LOW; /* more is damage, and must not wrap */
    }
    return sum <= limit && limit <= MAX_UNITS;
}

HOT int reserve_approximate(const Core *self, Word *base, const Wanted *wanted, uint64_t headroom, Rule rule)
{
    uint64_t slots = atomic_load(base + self->high_water); /* [H1] */
    if (slots > (uint64_t)self->slots)
        return DAMAGED;
    for (int i = 0; i < wanted->count; i++) {
        const Resource *r = &self->resources[wanted->index[i]];
        if (!has_room(self, base, r, (Py_ssize_t)slots, wanted->units[i] + headroom, rule))
            return wanted->index[i];
    }
    for (int i = 0; i < wanted->count; i++) {
        /* [A1] write: sequentially consistent, so visible before this process's next scan. */
        Py_ssize_t own = self->resources[wanted->index[i]].own;
        atomic_store(base + own, peek(base, own) + wanted->units[i]);
    }
    return ADMITTED;
}

HOT void release_approximate(const Core *self, Word *base, const Wanted *wanted)
{
    for (int i = 0; i < wanted->count; i++) {
        Py_ssize_t own = self->resources[wanted->index[i]].own;
        put(base, own, peek(base, own) - wanted->units[i]);
    }
}

/* ADMITTED, or the index of the resource that has no room, or DAMAGED. The core is live. */
HOT int core_take(const Core *self, const Wanted *wanted, uint64_t headroom, Rule rule)
{
    Word *base = self->words->base;
    return self->strict ? reserve_strict(self, base, wanted, headroom, rule)
                        : reserve_approximate(self, base, wanted, headroom, rule);
}

HOT int core_reserve(const Core *self, const Wanted *wanted, uint64_t headroom, Rule rule)
{
    int refused = core_take(self, wanted, headroom, rule);
    if (refused == ADMITTED)
        count_call(self->words->base, self->admitted);
    return refused;
}

/* ADMITTED, or the index of the resource of which less is held. */
HOT int find_short(const Core *self, const Wanted *wanted)
{
    for (int i = 0; i < wanted->count; i++) {
        if (low(peek(self->words->base, self->resources[wanted->index[i]].own)) < wanted->units[i])
            return wanted->index[i];
    }
    return ADMITTED;
}

HOT void core_put_back(const Core *self, const Wanted *wanted)
{
    Word *base = self->words->base;
    if (self->strict)
        release_strict(self, base, wanted);
    else
        release_approximate(self, base, wanted);
}

/* ADMITTED, or the index of the resource of which less is held: then nothing is given back. The core is live. */
HOT int core_release(const Core *self, const Wanted *wanted)
{
    int short_of = find_short(self, wanted);
    if (short_of != ADMITTED)
        return short_of;
    core_put_back(self, wanted);
    count_call(self->words->base, self->released);
    ring(self, self->words->base);
    return ADMITTED;
}

/* --- core: what Python sees of it --------------------------------------------------------------------------------- */

static int read_resource(Resource *r, const Words *words, PyObject *tuple, Py_ssize_t slots, Py_ssize_t step)
{
    PyObject *name;
    if (!PyArg_ParseTuple(tuple, "nnnnnU", &r->global, &r->limit, &r->own, &r->first, &r->refused, &name))
        return -1;
    r->name = Py_NewRef(name);
    PyUnicode_InternInPlace(&r->name);
    return has_word(words, r->global) && has_word(words, r->limit) && has_word(words, r->own) &&
                   has_word(words, r->refused) && has_column(words, r->first, slots, step)
               ? 0
               : -1;
}

static int read_resources(Core *self, const Words *words, PyObject *resources)
{
    Py_ssize_t count = PyTuple_Size(resources);
    if (count < 1 || count > MAX_RESOURCES) {
        PyErr_Format(PyExc_ValueError, "%zd resources, allowed: 1 to %d", count, MAX_RESOURCES);
        return -1;
    }
    for (self->count = 0; self->count < count; self->count++) {
        PyObject *tuple = PyTuple_GetItem(resources, self->count);
        if (read_resource(&self->resources[self->count], words, tuple, self->slots, self->step) != 0)
            return -1;
    }
    return 0;
}

static int core_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Core *self = (Core *)object;
    PyObject *words, *resources;
    int strict;
    static char *names[] = {"words", "strict",   "resources", "slots",  "step", "high_water",
                            "bell",  "admitted", "released",  "oldest", NULL};
    if (self->resources[0].name != NULL) {
        PyErr_SetString(PyExc_ValueError, "a core is made once");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OpO!nnnnnnn:Core", names, &words, &strict, &PyTuple_Type,
                                     &resources, &self->slots, &self->step, &self->high_water, &self->bell,
                                     &self->admitted, &self->released, &self->oldest))
        return -1;
    Words *w = (Words *)words;
    if (!is_type(Py_TYPE(words), words_dealloc) || read_resources(self, w, resources) != 0)
        return -1;
    if (!has_word(w, self->high_water) || !has_word(w, self->bell) || !has_word(w, self->admitted) ||
        !has_word(w, self->released) || !has_word(w, self->oldest))
        return -1;
    self->strict = strict;
    self->born = atomic_load(&generation);
    self->words = (Words *)Py_NewRef(words);
    return 0;
}

static void core_dealloc(PyObject *object)
{
    Core *self = (Core *)object;
    Py_CLEAR(self->words);
    for (int r = 0; r < MAX_RESOURCES; r++)
        Py_CLEAR(self->resources[r].name);
    free_instance(object);
}

/* Set the error that Python has for an admission that is closed. */
static void raise_gone(PyObject *admission)
{
    PyObject *nothing = PyObject_CallMethod(admission, "_check_open", NULL);
    Py_XDECREF(nothing);
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "this admission belongs to another process");
}

/* Raise the error that a method of Python's returned. Gives the reference up. */
static PyObject *raise_returned(PyObject *error)
{
    if (error != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}

static PyObject *raise_too_much(Core *self, const Wanted *wanted, int index)
{
    unsigned long long units = 0;
    for (int i = 0; i < wanted->count; i++)
        units = wanted->index[i] == index ? wanted->units[i] : units;
    return raise_returned(PyObject_CallMethod((PyObject *)self, "_too_much", "iK", index, units));
}

/* Let Python say that the high-water mark is damaged: FAILED. Or it is right again, and this was a refusal. */
static int tell_damage(Core *self, const Wanted *wanted)
{
    PyObject *nothing = PyObject_CallMethod((PyObject *)self, "_check_high_water", NULL);
    Py_XDECREF(nothing);
    return nothing != NULL ? wanted->index[0] : FAILED;
}

/* Reserve; where the high-water mark is damaged, let Python say so. ADMITTED, the index that refused, or FAILED. */
HOT int core_ask(Core *self, const Wanted *wanted, uint64_t headroom)
{
    int refused = core_reserve(self, wanted, headroom, ENFORCED);
    return refused == DAMAGED ? tell_damage(self, wanted) : refused;
}

/* Add a pair, if it is sound and of a resource not asked for yet. */
static bool add_wanted(Wanted *wanted, int index, uint64_t units)
{
    for (int i = 0; i < wanted->count; i++) {
        if (wanted->index[i] == index)
            return false;
    }
    if (index < 0 || wanted->count == MAX_RESOURCES || units < 1 || units > MAX_UNITS)
        return false;
    wanted->index[wanted->count] = index;
    wanted->units[wanted->count++] = units;
    return true;
}

/* Python's pairs of resource index and units. False: an error is set. */
static bool read_wanted(PyObject *pairs, Wanted *wanted)
{
    wanted->count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(pairs); i++) {
        int index;
        unsigned long long units;
        if (!PyArg_ParseTuple(PyTuple_GetItem(pairs, i), "iK", &index, &units))
            return false;
        if (!add_wanted(wanted, index, units))
            PyErr_SetString(PyExc_ValueError, "a pair is a resource index, each once, and positive units");
    }
    if (wanted->count == 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "nothing is asked for");
    return !PyErr_Occurred();
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

/* Whether the core can be asked for that; else an error is set. */
static bool is_ready(Core *self, const Wanted *wanted)
{
    for (int i = 0; i < wanted->count; i++) {
        if (wanted->index[i] >= self->count) {
            PyErr_Format(PyExc_IndexError, "resource %d is behind the last of %d", wanted->index[i], self->count);
            return false;
        }
    }
    if (!is_live(self)) {
        raise_gone((PyObject *)self);
        return false;
    }
    return true;
}

/* Whether it is 0 to 2**31 - 1; else an error is set. */
static bool is_headroom(unsigned long long headroom)
{
    if (headroom > MAX_UNITS)
        PyErr_Format(PyExc_ValueError, "headroom is %llu, allowed: 0 to %d", headroom, INT32_MAX);
    return headroom <= MAX_UNITS;
}

static PyObject *core_reserve_method(PyObject *object, PyObject *args)
{
    PyObject *pairs;
    unsigned long long headroom;
    Wanted wanted;
    if (!PyArg_ParseTuple(args, "O!K:reserve", &PyTuple_Type, &pairs, &headroom) || !read_wanted(pairs, &wanted))
        return NULL;
    if (!is_headroom(headroom) || !is_ready((Core *)object, &wanted))
        return NULL;
    int refused = core_ask((Core *)object, &wanted, headroom);
    return refused == FAILED ? NULL : PyLong_FromLong(refused);
}

/* Reserve whatever the limits: a dry run counts, and never refuses but what would overflow a word. */
static int core_ask_dry(Core *self, const Wanted *wanted)
{
    int refused = core_reserve(self, wanted, 0, DRY_RUN);
    return refused == DAMAGED ? tell_damage(self, wanted) : refused;
}

static PyObject *core_force(PyObject *object, PyObject *pairs)
{
    Core *self = (Core *)object;
    Wanted wanted;
    if (!read_wanted(pairs, &wanted) || !is_ready(self, &wanted))
        return NULL;
    int refused = core_ask_dry(self, &wanted);
    return refused == FAILED ? NULL : PyLong_FromLong(refused);
}

/* NULL for a core: an error is set. */
HOT PyObject *release_from(Core *core, const Wanted *wanted)
{
    if (core == NULL)
        return NULL;
    int short_of = core_release(core, wanted);
    if (short_of != ADMITTED)
        return raise_too_much(core, wanted, short_of);
    Py_RETURN_NONE;
}

static PyObject *core_release_method(PyObject *object, PyObject *pairs)
{
    Wanted wanted;
    bool ready = read_wanted(pairs, &wanted) && is_ready((Core *)object, &wanted);
    return ready ? release_from((Core *)object, &wanted) : NULL;
}

/* The resource of that index, or NULL with an error set. */
static const Resource *resource_at(const Core *self, PyObject *argument)
{
    long index = PyLong_AsLong(argument);
    if (index >= 0 && index < self->count)
        return &self->resources[index];
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_IndexError, "resource %ld is not one of %d", index, self->count);
    return NULL;
}

static PyObject *core_refuse(PyObject *object, PyObject *argument)
{
    Core *self = (Core *)object;
    const Resource *r = resource_at(self, argument);
    if (r == NULL)
        return NULL;
    if (is_live(self))
        count_call(self->words->base, r->refused);
    Py_RETURN_NONE;
}

/* Whether the slot may be looked at, or cleared up: also when the core is closed, but never in a forked child. */
static bool is_ours(Core *self)
{
    if (self->words != NULL && self->words->base != NULL && self->born == atomic_load(&generation))
        return true;
    raise_gone((PyObject *)self);
    return false;
}

static PyObject *core_held(PyObject *object, PyObject *argument)
{
    Core *self = (Core *)object;
    const Resource *r = resource_at(self, argument);
    return r && is_ours(self) ? PyLong_FromUnsignedLongLong(low(peek(self->words->base, r->own))) : NULL;
}

/* Release whatever is held: the end of this owner. It is marked closed by now. */
static PyObject *core_give_back_all(PyObject *object, PyObject *Py_UNUSED(none))
{
    Core *self = (Core *)object;
    Wanted held = {.count = 0};
    if (!is_ours(self))
        return NULL;
    Word *base = self->words->base;
    for (int r = 0; r < self->count; r++) {
        uint64_t units = low(peek(base, self->resources[r].own));
        if (units > 0 && !self->strict)
            put(base, self->resources[r].own, 0);
        held.index[held.count] = r;
        held.units[held.count] = units;
        held.count += units > 0 && self->strict;
    }
    release_strict(self, base, &held);
    Py_RETURN_NONE;
}

static PyObject *core_inherited(PyObject *object, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((Core *)object)->born != atomic_load(&generation));
}

static PyMethodDef core_methods[] = {
    {"reserve", core_reserve_method, METH_VARARGS, NULL},
    {"release", core_release_method, METH_O, NULL},
    {"force", core_force, METH_O, NULL},
    {"refuse", core_refuse, METH_O, NULL},
    {"held", core_held, METH_O, NULL},
    {"give_back_all", core_give_back_all, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

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

/* --- current: the admission that a connection uses, where the limiter finds it without asking Python -------------- */

typedef struct {
    PyObject_HEAD
    PyObject *admission; /* a core, or a stand-in */
} Current;

static int current_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Current *)object)->admission);
    return 0;
}

static int current_clear(PyObject *object)
{
    Py_CLEAR(((Current *)object)->admission);
    return 0;
}

static void current_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    current_clear(object);
    free_instance(object);
}

static PyMemberDef current_members[] = {
    {"admission", T_OBJECT_EX, offsetof(Current, admission), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot current_slots[] = {
    {Py_tp_doc, "Holds the admission in use."},
    {Py_tp_traverse, current_traverse},
    {Py_tp_clear, current_clear},
    {Py_tp_dealloc, current_dealloc},
    {Py_tp_members, current_members},
    {0, NULL},
};

static PyType_Spec current_spec = {
    "hardcap.native.Current", sizeof(Current), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, current_slots,
};

/* --- permit ------------------------------------------------------------------------------------------------------- */

struct Permit {
    PyObject_HEAD
    PyObject *weak_references;
    PyObject *connection; /* kept alive: one that is collected gives back all it holds */
    Core *core;
    Permit *elder, *younger;
    uint64_t taken_at; /* Unix nanoseconds, to the kernel's tick of 1 to 10 ms */
    Wanted wanted;
    bool out;
};

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME_COARSE, &time); /* a quarter of the cost of the exact one */
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void show_oldest(const Core *core)
{
    if (is_live(core))
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
    if (was_eldest)
        show_oldest(core);
}

static void permit_hand_out(Permit *self)
{
    self->taken_at = now();
    self->out = true;
    permit_enlist(self);
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

static bool is_same(const Wanted *one, const Wanted *other)
{
    bool same = one->count == other->count;
    for (int i = 0; same && i < one->count; i++)
        same = one->index[i] == other->index[i] && one->units[i] == other->units[i];
    return same;
}

/* What a permit is to hold beyond `before`, and below it. */
static void differences(const Wanted *before, const Wanted *after, Wanted *up, Wanted *down)
{
    uint64_t had[MAX_RESOURCES] = {0}, has[MAX_RESOURCES] = {0};
    up->count = down->count = 0;
    for (int i = 0; i < before->count; i++)
        had[before->index[i]] = before->units[i];
    for (int i = 0; i < after->count; i++)
        has[after->index[i]] = after->units[i];
    for (int r = 0; r < MAX_RESOURCES; r++) {
        if (has[r] > had[r])
            add_wanted(up, r, has[r] - had[r]);
        if (had[r] > has[r])
            add_wanted(down, r, had[r] - has[r]);
    }
}

/* Hold `wanted` from now on, in one piece. ADMITTED; the index that has no room, or FAILED: then nothing changed. */
static int permit_change(Permit *self, const Wanted *wanted, Rule rule)
{
    Wanted up, down;
    differences(&self->wanted, wanted, &up, &down);
    int short_of = find_short(self->core, &down);
    if (short_of != ADMITTED) {
        raise_too_much(self->core, &down, short_of);
        return FAILED;
    }
    int refused = up.count > 0 ? core_take(self->core, &up, 0, rule) : ADMITTED;
    if (refused == DAMAGED)
        return tell_damage(self->core, &up);
    if (refused != ADMITTED)
        return refused;
    core_put_back(self->core, &down);
    self->wanted = *wanted;
    ring(self->core, self->core->words->base);
    return ADMITTED;
}

/* What it held must still be what Python saw when it made out what to hold now; else None, and it looks again. */
static PyObject *permit_replace(PyObject *object, PyObject *args)
{
    Permit *self = (Permit *)object;
    PyObject *seen, *pairs;
    int enforced;
    Wanted before, wanted;
    if (!PyArg_ParseTuple(args, "O!O!p:_replace", &PyTuple_Type, &seen, &PyTuple_Type, &pairs, &enforced) ||
        !read_wanted(seen, &before) || !read_wanted(pairs, &wanted))
        return NULL;
    if (!self->out || !is_live(self->core) || !is_same(&before, &self->wanted))
        Py_RETURN_NONE;
    if (!is_ready(self->core, &wanted))
        return NULL;
    int refused = permit_change(self, &wanted, enforced ? ENFORCED : DRY_RUN);
    return refused == FAILED ? NULL : PyLong_FromLong(refused);
}

static PyObject *permit_enter(PyObject *object, PyObject *Py_UNUSED(none)) { return Py_NewRef(object); }

static PyObject *permit_exit(PyObject *object, PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(nargs))
{
    if (permit_give_back((Permit *)object) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Also when that cannot be told any more; but a call that fails, as at the recursion limit, is none at the end. */
static bool is_finalizing(void)
{
    PyObject *function = PySys_GetObject("is_finalizing");
    if (function == NULL || function == Py_None)
        return true;
    PyObject *answer = PyObject_CallNoArgs(function);
    bool finalizing = answer != NULL && PyObject_IsTrue(answer) != 0;
    Py_XDECREF(answer);
    PyErr_Clear();
    return finalizing;
}

static void permit_forgotten(Permit *self)
{
    PyObject *pairs = permit_give_back(self) < 0 ? NULL : show_wanted(&self->wanted);
    PyObject *told = pairs ? PyObject_CallMethod(self->connection, "forgotten", "OO", self->core, pairs) : NULL;
    if (told == NULL)
        PyErr_WriteUnraisable((PyObject *)Py_TYPE((PyObject *)self));
    Py_XDECREF(pairs);
    Py_XDECREF(told);
}

/* Collected while held: released and told of, unless the parent holds it, or the interpreter goes. */
static void permit_finish(Permit *self)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace); /* it may be an error that drops the permit */
    if (is_live(self->core) && !is_finalizing())
        permit_forgotten(self);
    else
        permit_strike(self);
    PyErr_Restore(type, value, trace);
}

static void permit_dealloc(PyObject *object)
{
    Permit *self = (Permit *)object;
    if (self->weak_references != NULL)
        PyObject_ClearWeakRefs(object);
    if (self->out)
        permit_finish(self);
    Py_CLEAR(self->connection);
    Py_CLEAR(self->core);
    PyTypeObject *type = Py_TYPE(object);
    PyObject_Free(object); /* nobody derives from it, and the collector does not know it */
    Py_DECREF(type);
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

/* Each docstring is that of the class in permit.py, which this type is not derived from: a test compares them. */
static PyMethodDef permit_methods[] = {
    {"release", permit_release, METH_NOARGS,
     "release($self, /)\n--\n\n"
     "Give the units back. True the first time, False ever after, from any thread.\n\n"
     "False too once its limiter is closed (closing gave them back), and in a forked child (the parent holds them).\n"
     ":class:`ReleaseError` if the limiter holds less by now: a bare ``limiter.release()`` took this permit's units.\n\n"
     ">>> permit = hardcap.open(\"web\", limit=2).admit()\n"
     ">>> permit.release(), permit.release()\n"
     "(True, False)"},
    {"_replace", permit_replace, METH_VARARGS, NULL},
    {"__enter__", permit_enter, METH_NOARGS, NULL},
    {"__exit__", FAST(permit_exit), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef permit_getset[] = {
    {"released", permit_released, NULL,
     "Whether nothing is held by it any more: released, or its limiter closed, or inherited by a fork.\n\n"
     ">>> permit = hardcap.open(\"web\", limit=2).admit()\n"
     ">>> permit.released, permit.release(), permit.released\n"
     "(False, True, True)",
     NULL},
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

/* --- limiter ------------------------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    PyObject *weak_references;
    Current *connection;
    PyTypeObject *core_type, *permit_type; /* the type of its cores: a subclass, made in Python */
    PyObject *attaching; /* the error of who asks in the middle of attaching */
} Limiter;

static int limiter_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Limiter *self = (Limiter *)object;
    PyObject *connection, *core_type, *permit_type, *attaching;
    static char *names[] = {"connection", "core_type", "permit_type", "attaching", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!O!O!:Limiter", names, &connection, &PyType_Type, &core_type,
                                     &PyType_Type, &permit_type, &PyType_Type, &attaching))
        return -1;
    if (!is_type(base_of(Py_TYPE(connection)), current_dealloc) ||
        !is_type(base_of((PyTypeObject *)core_type), core_dealloc) ||
        !is_type((PyTypeObject *)permit_type, permit_dealloc))
        return -1;
    if (self->connection != NULL) {
        PyErr_SetString(PyExc_ValueError, "a limiter is made once");
        return -1;
    }
    self->connection = (Current *)Py_NewRef(connection);
    self->core_type = (PyTypeObject *)Py_NewRef(core_type);
    self->permit_type = (PyTypeObject *)Py_NewRef(permit_type);
    self->attaching = Py_NewRef(attaching);
    return 0;
}

static int limiter_traverse(PyObject *object, visitproc visit, void *arg)
{
    Limiter *self = (Limiter *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->connection);
    Py_VISIT(self->core_type);
    Py_VISIT(self->permit_type);
    Py_VISIT(self->attaching);
    return 0;
}

static int limiter_clear(PyObject *object)
{
    Limiter *self = (Limiter *)object;
    Py_CLEAR(self->connection);
    Py_CLEAR(self->core_type);
    Py_CLEAR(self->permit_type);
    Py_CLEAR(self->attaching);
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

/* The core in use, if it is there and live. */
HOT Core *limiter_current(const Limiter *self)
{
    PyObject *admission = self->connection != NULL ? self->connection->admission : NULL;
    bool is_core = admission != NULL && Py_TYPE(admission) == self->core_type;
    return is_core && is_live((Core *)admission) ? (Core *)admission : NULL;
}

static bool has_connection(const Limiter *self)
{
    if (self->connection == NULL)
        PyErr_SetString(PyExc_ValueError, "this limiter was never opened");
    return self->connection != NULL;
}

/* The slow way to it: attach after a fork, or raise what there is to raise. */
static Core *limiter_attach(Limiter *self)
{
    if (!has_connection(self))
        return NULL;
    PyObject *admission = PyObject_CallMethod((PyObject *)self->connection, "live", NULL);
    if (admission == NULL)
        return NULL;
    Core *core = limiter_current(self);
    if (core == NULL) /* closed by another thread meanwhile */
        raise_gone(admission);
    Py_DECREF(admission);
    return core;
}

/* The core in use: a borrowed reference, good until Python runs again. NULL: an error is set. */
HOT Core *limiter_core(Limiter *self)
{
    Core *core = limiter_current(self);
    return core != NULL ? core : limiter_attach(self);
}

/* One call of reserve, release or admit. */
typedef struct {
    const char *method;
    bool takes_headroom;
    PyObject *const *args;
    Py_ssize_t nargs;
    PyObject *kwnames;
    Wanted wanted; /* what is read from it */
    uint64_t headroom;
} Call;

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

/* The index of a resource by its name; -1: there is none. */
static int find_resource(const Core *core, PyObject *name)
{
    int r = core->count - 1;
    while (r >= 0 && name != core->resources[r].name && PyUnicode_Compare(name, core->resources[r].name) != 0)
        r--;
    return r;
}

/* What is asked for, if all of it is plain and right. False: let Python judge, and raise. */
static bool read_plainly(const Core *core, Call *call)
{
    Py_ssize_t named = call->kwnames != NULL ? PyTuple_Size(call->kwnames) : 0;
    bool given = call->nargs == 1;
    uint64_t units;
    if (call->nargs > 1 || (given && !(is_units(call->args[0], &units) && add_wanted(&call->wanted, 0, units))))
        return false;
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GetItem(call->kwnames, i);
        if (!PyUnicode_CheckExact(name) || !is_units(call->args[call->nargs + i], &units))
            return false;
        if (call->takes_headroom && PyUnicode_CompareWithASCIIString(name, "headroom") == 0) {
            call->headroom = units;
            continue;
        }
        int r = find_resource(core, name);
        if (r < 0 || (r == 0 && call->nargs == 1) || (units > 0 && !add_wanted(&call->wanted, r, units)))
            return false;
        given = true;
    }
    if (!given)
        call->wanted = SINGLE;
    return call->wanted.count > 0;
}

/* All arguments, as Python wants them. */
static bool gather(const Call *call, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t named = call->kwnames != NULL ? PyTuple_Size(call->kwnames) : 0;
    if (args == NULL || kwargs == NULL)
        return false;
    for (Py_ssize_t i = 0; i < call->nargs; i++) {
        if (PyTuple_SetItem(args, i, Py_NewRef(call->args[i])) != 0)
            return false;
    }
    for (Py_ssize_t i = 0; i < named; i++) {
        if (PyDict_SetItem(kwargs, PyTuple_GetItem(call->kwnames, i), call->args[call->nargs + i]) != 0)
            return false;
    }
    return true;
}

/* Call a method of Python's with the arguments of this call. */
static PyObject *call_python(PyObject *object, const char *name, const Call *call)
{
    PyObject *method = PyObject_GetAttrString(object, name);
    PyObject *args = PyTuple_New(call->nargs), *kwargs = PyDict_New(), *answer = NULL;
    if (method != NULL && gather(call, args, kwargs))
        answer = PyObject_Call(method, args, kwargs);
    Py_XDECREF(method);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return answer;
}

/* The connection's method of the same name gives what is asked for and the headroom, or raises. */
static bool read_by_python(Limiter *self, Call *call)
{
    PyObject *answer = call_python((PyObject *)self->connection, call->method, call), *pairs;
    unsigned long long headroom;
    bool read = answer != NULL && PyArg_ParseTuple(answer, "O!K", &PyTuple_Type, &pairs, &headroom) &&
                read_wanted(pairs, &call->wanted);
    call->headroom = read ? headroom : 0;
    Py_XDECREF(answer);
    return read;
}

/* The core to ask, once the call is read. It is looked up last: whatever Python ran may have closed it. */
static Core *limiter_read(Limiter *self, Call *call)
{
    Core *core = limiter_current(self);
    if (core != NULL && read_plainly(core, call))
        return core;
    core = has_connection(self) && read_by_python(self, call) ? limiter_core(self) : NULL;
    return core != NULL && is_ready(core, &call->wanted) ? core : NULL;
}

/* After a refusal: Python sweeps for dead owners, asks once more, and counts. */
static int try_again(Limiter *self, const Wanted *wanted, uint64_t headroom, int refused)
{
    PyObject *pairs = show_wanted(wanted), *answer = NULL;
    if (pairs != NULL)
        answer = PyObject_CallMethod((PyObject *)self->connection, "try_again", "OKi", pairs,
                                     (unsigned long long)headroom, refused);
    Py_XDECREF(pairs);
    long again = answer != NULL ? PyLong_AsLong(answer) : FAILED;
    Py_XDECREF(answer);
    return PyErr_Occurred() ? FAILED : (int)again;
}

/* ADMITTED, the index of the resource that refused, or FAILED. */
HOT int limiter_ask(Limiter *self, Core *core, const Wanted *wanted, uint64_t headroom)
{
    int refused = core != NULL ? core_ask(core, wanted, headroom) : FAILED;
    return refused >= 0 ? try_again(self, wanted, headroom, refused) : refused;
}

static PyObject *limiter_reserve(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Limiter *self = (Limiter *)object;
    int refused;
    if (nargs == 0 && kwnames == NULL) {
        refused = limiter_ask(self, limiter_core(self), &SINGLE, 0);
    } else {
        Call call = {.method = "reserve", .takes_headroom = true, .args = args, .nargs = nargs, .kwnames = kwnames};
        Core *core = limiter_read(self, &call);
        refused = limiter_ask(self, core, &call.wanted, call.headroom);
    }
    if (refused == FAILED) {
        if (self->attaching == NULL || !PyErr_ExceptionMatches(self->attaching))
            return NULL;
        PyErr_Clear();
    }
    return PyBool_FromLong(refused == ADMITTED);
}

static PyObject *limiter_release(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Limiter *self = (Limiter *)object;
    if (nargs == 0 && kwnames == NULL)
        return release_from(limiter_core(self), &SINGLE);
    Call call = {.method = "release", .args = args, .nargs = nargs, .kwnames = kwnames};
    Core *core = limiter_read(self, &call);
    return release_from(core, &call.wanted);
}

static PyObject *raise_exceeded(Limiter *self, const Wanted *wanted, uint64_t headroom, int refused)
{
    PyObject *pairs = show_wanted(wanted), *error = NULL;
    if (pairs != NULL)
        error = PyObject_CallMethod((PyObject *)self->connection, "exceeded", "OKi", pairs,
                                    (unsigned long long)headroom, refused);
    Py_XDECREF(pairs);
    return raise_returned(error);
}

/* A permit that holds nothing yet. */
static Permit *permit_make(const Limiter *limiter, Core *core, const Wanted *wanted)
{
    Permit *self = (Permit *)PyType_GenericAlloc(limiter->permit_type, 0);
    if (self == NULL)
        return NULL;
    self->connection = Py_NewRef((PyObject *)limiter->connection);
    self->core = (Core *)Py_NewRef((PyObject *)core);
    self->wanted = *wanted;
    return self;
}

/* Reserve for a permit that is there already, so that nothing can fail once the units are taken. */
static bool permit_reserve(Permit *self, Limiter *limiter, uint64_t headroom)
{
    int refused = limiter_ask(limiter, self->core, &self->wanted, headroom);
    if (refused >= 0)
        raise_exceeded(limiter, &self->wanted, headroom, refused);
    if (refused != ADMITTED)
        return false;
    Core *before = self->core, *core = limiter_current(limiter);
    if (core != NULL && core != before) { /* attached anew while Python asked once more */
        self->core = (Core *)Py_NewRef((PyObject *)core);
        Py_DECREF((PyObject *)before);
    }
    permit_hand_out(self);
    return true;
}

/* A permit for what is read already. */
HOT PyObject *admit_wanted(Limiter *self, Core *core, const Wanted *wanted, uint64_t headroom)
{
    Permit *permit = core != NULL ? permit_make(self, core, wanted) : NULL;
    if (permit != NULL && !permit_reserve(permit, self, headroom))
        Py_CLEAR(permit);
    return (PyObject *)permit;
}

/* Everything but a plain call is Python's: it may have to wait. */
static PyObject *limiter_admit(PyObject *object, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Limiter *self = (Limiter *)object;
    if (nargs == 0 && kwnames == NULL)
        return admit_wanted(self, limiter_core(self), &SINGLE, 0);
    Call call = {.method = "admit", .takes_headroom = true, .args = args, .nargs = nargs, .kwnames = kwnames};
    Core *core = limiter_current(self);
    if (core != NULL && read_plainly(core, &call))
        return admit_wanted(self, core, &call.wanted, call.headroom);
    return has_connection(self) ? call_python(object, "_admit", &call) : NULL;
}

/* Ask once, and count no refusal: a permit, or the index of the resource that refused. For those who ask again, and
 * for a dry run, which asks whatever the limits once it has been refused. */
static PyObject *limiter_ask_once(PyObject *object, PyObject *args)
{
    Limiter *self = (Limiter *)object;
    PyObject *pairs;
    unsigned long long headroom;
    int enforced = 1;
    Wanted wanted;
    if (!PyArg_ParseTuple(args, "O!K|p:_ask", &PyTuple_Type, &pairs, &headroom, &enforced) ||
        !read_wanted(pairs, &wanted))
        return NULL;
    Core *core = is_headroom(headroom) ? limiter_core(self) : NULL;
    Permit *permit = core != NULL && is_ready(core, &wanted) ? permit_make(self, core, &wanted) : NULL;
    int refused = permit == NULL ? FAILED
                  : enforced     ? core_ask(permit->core, &wanted, headroom)
                                 : core_ask_dry(permit->core, &wanted);
    if (refused == ADMITTED) {
        permit_hand_out(permit);
        return (PyObject *)permit;
    }
    Py_XDECREF((PyObject *)permit);
    return refused == FAILED ? NULL : PyLong_FromLong(refused);
}

/* Their docstrings are those of the class in limiter.py. */
static PyMethodDef limiter_methods[] = {
    {"reserve", FAST(limiter_reserve), METH_FASTCALL | METH_KEYWORDS,
     "reserve($self, amount=1, /, *, headroom=0, **amounts)\n--\n\n"},
    {"release", FAST(limiter_release), METH_FASTCALL | METH_KEYWORDS, "release($self, amount=1, /, **amounts)\n--\n\n"},
    {"admit", FAST(limiter_admit), METH_FASTCALL | METH_KEYWORDS,
     "admit($self, amount=1, /, *, timeout=0.0, headroom=0, **amounts)\n--\n\n"},
    {"_ask", limiter_ask_once, METH_VARARGS, NULL},
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

/* --- module ------------------------------------------------------------------------------------------------------- */

/* The base has methods only: what it would have of memory is ours. */
static PyObject *derive_from(PyObject *module, PyType_Spec *spec, PyObject *base)
{
    PyObject *size = PyObject_GetAttrString(base, "__basicsize__");
    bool empty = size != NULL && PyLong_AsSsize_t(size) == (Py_ssize_t)sizeof(PyObject);
    Py_XDECREF(size);
    if (!empty)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "%R is no class with empty __slots__", base);
    PyObject *bases = PyTuple_Pack(1, base);
    PyObject *type = bases ? PyType_FromModuleAndSpec(module, spec, bases) : NULL;
    Py_XDECREF(bases);
    return type;
}

static PyObject *limiter_type(PyObject *module, PyObject *base) { return derive_from(module, &limiter_spec, base); }

static PyMethodDef module_methods[] = {
    {"guard", guard, METH_O, "Close this descriptor in every forked child, also one forked from C."},
    {"unguard", unguard, METH_O, "Forget a descriptor that has been closed."},
    {"forks", forks, METH_NOARGS, "How many forks lie between the process that loaded this and the present one."},
    {"limiter_type", limiter_type, METH_O, "The native limiter, derived from the given class without a layout."},
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
    if (!watching && pthread_atfork(NULL, NULL, in_forked_child) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    watching = true;
    PyType_Spec *specs[] = {&words_spec, &core_spec, &current_spec, &permit_spec};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        if (add_type(module, specs[i]) != 0)
            return -1;
    }
    return 0;
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
