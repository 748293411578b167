"""The HTTP interface and the page: ``engine`` answers, ``app`` speaks HTTP, ``page.*`` is what people see."""
