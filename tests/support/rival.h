/* Put before native.c, it has every atomic access tell somebody first: `rival`, where one is set. So a test may act as
 * another process between any two accesses. */
#include <stdatomic.h>

void (*rival)(void);

static void before_access(void)
{
    if (rival != 0)
        rival();
}

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_fetch_add
#undef atomic_compare_exchange_strong
#define atomic_load(place) atomic_load_explicit(place, memory_order_seq_cst)
#define atomic_load_explicit(place, order) (before_access(), __atomic_load_n(place, order))
#define atomic_store(place, value) atomic_store_explicit(place, value, memory_order_seq_cst)
#define atomic_store_explicit(place, value, order) (before_access(), __atomic_store_n(place, value, order))
#define atomic_fetch_add(place, value) (before_access(), __atomic_fetch_add(place, value, memory_order_seq_cst))
#define atomic_compare_exchange_strong(place, expected, value)                                                         \
    (before_access(),                                                                                                  \
     __atomic_compare_exchange_n(place, expected, value, 0, memory_order_seq_cst, memory_order_seq_cst))
