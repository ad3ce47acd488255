"""For servers that load the application before they fork: the limiter is made, and used, where this is imported."""

from __future__ import annotations

import hardcap
from hardcap import asgi, wsgi
from tests.support import held_app, held_wsgi

limiter = hardcap.open(hardcap.Config.from_env())
with limiter.admit():
    pass

asgi_app = held_app.signed(asgi.HardcapMiddleware(held_app.plain, limiter))
wsgi_app = held_wsgi.signed(wsgi.HardcapMiddleware(held_wsgi.plain, limiter))
