from aos.worker import EffectContext, Executors, effect


@effect("hello/greet@1")
async def greet(params: dict[str, str], ctx: EffectContext) -> dict[str, str]:
    return {"word": f"hello {params['word']}"}


hello = Executors("hello", [greet])
