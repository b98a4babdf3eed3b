"""Shows C{twistd} the router."""

from static_routes import StaticRouterFactory

static_routes = StaticRouterFactory()
