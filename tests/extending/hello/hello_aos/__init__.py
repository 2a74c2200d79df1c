from aos_cli.extension import Command

COMMANDS = (
    Command("hello", "Greet a world.", ("aos hello --world shop",), "hello_aos.command:greet"),
)
