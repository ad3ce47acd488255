"""One worker of a storm, from the fork to its end: by itself, as after so many requests, or by a signal."""

from __future__ import annotations

import os
import random
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import hardcap
from tests.torture.ledger import RECORDS, Page, Pages, now
from tests.torture.plan import MOST, Plan

PAGES = 3  # a life needs: one a thread, and one for a forked child

GiveBack = Callable[[], object]


class Life:
    """What all threads of one worker share."""

    def __init__(self, plan: Plan, limiter: hardcap.Limiter, pages: Pages) -> None:
        self.plan = plan
        self.limiter = limiter
        self.pages = pages
        self.first, *_ = plan.limits


class Hand:
    """One thread's work: ask, hold, give back, and note all of it on its page."""

    def __init__(self, life: Life, page: Page, seed: int) -> None:
        self._life = life
        self._page = page
        self._chance = random.Random(seed)

    def work(self, requests: int, amid: Callable[[], None] = lambda: None) -> None:
        """So many requests. ``amid`` is called now and then while units are held."""
        while requests and not self._page.is_full and not self._life.pages.stopping:
            requests -= 1
            self.request(amid if self._chance.random() < 0.02 else lambda: None)
            if self._chance.random() < 0.005:
                self._change_limit()
            self._pause()

    def request(self, amid: Callable[[], None]) -> None:
        amounts, called = self._life.plan.amounts(self._chance), now()
        give_back = self._take(amounts)
        if give_back is None:
            self._page.refused()
            return
        at = self._page.admitted(called, amounts)
        amid()
        self._pause()
        self._page.ending(at)
        give_back()

    def abandon(self) -> NoReturn:
        """Take some units, and end without giving them back."""
        self._kept = self._take(self._life.plan.amounts(self._chance))
        os._exit(0)

    def _take(self, amounts: tuple[int, ...]) -> GiveBack | None:
        if not self._life.plan.capped:
            return lambda: None
        named = dict(zip(self._life.plan.limits, amounts, strict=True))
        limiter = self._life.limiter
        if self._chance.random() < 0.5:
            return (lambda: limiter.release(**named)) if limiter.reserve(**named) else None
        try:
            return self._settle(named) if self._chance.random() < 0.5 else limiter.admit(**named).release
        except hardcap.CapExceeded:
            return None

    def _settle(self, named: Mapping[str, int]) -> GiveBack | None:
        """An estimate first; what it was too low or too high by is taken and given back at once, or all is given up."""
        plan = self._life.plan
        permit = self._life.limiter.admit(**dict(zip(plan.limits, plan.amounts(self._chance), strict=True)))
        if permit.adjust(**named):
            return permit.release
        permit.release()
        return None

    def _change_limit(self) -> None:
        if self._page.is_full:
            return
        limit = self._chance.randint(MOST, self._life.plan.limits[self._life.first])
        at = self._page.changing(limit)
        self._life.limiter.set_limit(limit)
        self._page.changed(at)

    def _pause(self) -> None:
        if self._life.plan.pause:
            time.sleep(self._chance.uniform(0, self._life.plan.pause))


def live(plan: Plan, name: str, directory: str, pages: Pages, own: list[Page], seed: int) -> NoReturn:
    """Everything from the fork on. The status is that of a failure, of units still held, or 0."""
    try:
        os.setpgid(0, 0)
        limiter = hardcap.open(name, directory=directory, backend=plan.backends[seed % len(plan.backends)])
        _spend(Life(plan, limiter, pages), own, random.Random(seed))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _spend(life: Life, own: list[Page], chance: random.Random) -> None:
    requests = int(RECORDS ** chance.random())  # some end after a few, some after many
    hands = [Hand(life, page, chance.getrandbits(32)) for page in own]
    if chance.random() < 0.5:
        _in_threads(hands, requests)
    else:
        hands[0].work(requests, _forking(life, hands[1]) if life.plan.forks else lambda: None)
    if chance.random() < 0.5:
        assert life.limiter.held == 0
        life.limiter.close()
    else:
        hands[0].abandon()


def _in_threads(hands: list[Hand], requests: int) -> None:
    with ThreadPoolExecutor(len(hands)) as pool:
        for done in [pool.submit(hand.work, requests) for hand in hands]:
            done.result()


def _forking(life: Life, hand: Hand) -> Callable[[], None]:
    """Fork while units are held, once in a life. The child holds none of them; it works a little in its own slot."""
    once = iter([True])

    def fork() -> None:
        if next(once, False) and not os.fork():
            assert life.limiter.held == 0
            hand.work(10)
            hand.abandon()

    return fork
