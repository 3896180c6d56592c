"""Names of all that a JSON value holds."""


def names_in(value, prefix=""):
    """{"a": [{"b": 1}]} has a and a[].b."""
    if isinstance(value, dict):
        for name, inner in value.items():
            path = f"{prefix}.{name}" if prefix else name
            yield path
            yield from names_in(inner, path)
    elif isinstance(value, list):
        for inner in value:
            yield from names_in(inner, f"{prefix}[]")
