"""A loopback endpoint speaking the OpenAI chat protocol with a set latency; a process of
its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random

from aiohttp import web

MARKER = "[[ ## answer ## ]]"


async def complete(request: web.Request) -> web.Response:
    options = request.app["options"]
    body = await request.json()
    await asyncio.sleep(options.latency)
    draw = options.random.random()
    if draw < options.refuse:
        return web.json_response(
            {"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "0.1"}
        )
    if draw < options.refuse + options.fail:
        return web.json_response({"error": {"message": "try again"}}, status=500)
    request.app["answered"][0] += 1
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema", {})
    fields = schema.get("properties", {"answer": {}})
    reply = {name: (spec.get("enum") or ["because it fits"])[0] for name, spec in fields.items()}
    content = json.dumps(reply)
    if MARKER in str(body["messages"]):  # DSPy's own chat format
        content = f"[[ ## argument ## ]]\nbecause it fits\n\n{MARKER}\nA\n\n[[ ## completed ## ]]"
    return web.json_response(
        {
            "id": "1",
            "object": "chat.completion",
            "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": content},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }
    )


async def answered(request: web.Request) -> web.Response:
    """How many completions were given so far."""
    return web.json_response(request.app["answered"][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.2, help="seconds a call takes")
    parser.add_argument("--refuse", type=float, default=0.0, help="share of calls answered 429")
    parser.add_argument("--fail", type=float, default=0.0, help="share of calls answered 500")
    options = parser.parse_args()
    options.random = random.Random(0)
    app = web.Application()
    app["options"] = options
    app["answered"] = [0]
    app.router.add_post("/v1/chat/completions", complete)
    app.router.add_get("/answered", answered)

    async def serve() -> None:
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
