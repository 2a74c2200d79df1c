from aos_cli.open_view import looking_at
from aos_cli.options import DEFAULT_WORLD, World
from aos_cli.output import line


def greet(*, world: World = DEFAULT_WORLD) -> None:
    with looking_at(world) as view:
        line(f"hello {world}, of {view.state.next_seq - 1} records")
