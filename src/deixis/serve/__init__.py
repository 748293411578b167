"""HTTP API and web page: ``engine`` runs the models, ``app`` has the routes, ``page.*`` is the page."""
