"""follow.py PORT_FILE READY...: a TCP relay on loopback that sends each connection to the server whose ready file is
the newest, as a load balancer with a health check would. Writes its own host:port to PORT_FILE."""
import asyncio, os, sys


def newest():
    best = None
    for name in sys.argv[2:]:
        try:
            with open(name) as f:
                at = f.read().strip()
            if at and (best is None or os.stat(name).st_mtime_ns > best[0]):
                best = (os.stat(name).st_mtime_ns, at)
        except OSError:
            pass
    return best[1].rsplit(":", 1) if best else None


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(reader, writer):
    at = newest()
    try:
        up_reader, up_writer = await asyncio.open_connection(at[0], int(at[1]))
    except (OSError, TypeError):
        writer.close()
        return
    await asyncio.gather(pump(reader, up_writer), pump(up_reader, writer))


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with open(sys.argv[1] + ".tmp", "w") as f:
        f.write("127.0.0.1:%d\n" % server.sockets[0].getsockname()[1])
    os.rename(sys.argv[1] + ".tmp", sys.argv[1])
    await server.serve_forever()


asyncio.run(main())
