"""The client, the servers and privacy over the stand-in library."""
from __future__ import annotations

import array
import gc
import logging
import os
import signal
import tempfile
import threading
import time
import unittest

from support import STANDIN_VERSION, VERSION, run_python, standin, use_standin

use_standin()
import sefl  # noqa: E402

logging.getLogger("sefl").addHandler(logging.NullHandler())
CONFIG = __file__  # the stand-in needs a file, and does not read it


def setUpModule() -> None:
    # a shell's background jobs ignore SIGINT, and Python then has no handler
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Rounds(unittest.TestCase):
    def test_loop(self) -> None:
        seen = []
        with sefl.Client(CONFIG) as client:
            for r in client:
                seen.append((r.number, r.rounds, list(r.values)))
                for i in range(len(r.values)):
                    r.values[i] += 1
                receipt = r.submit(weight=7)
                self.assertEqual(
                    receipt, sefl.Receipt(r.number, 7, 1.5, b"\7" * 32)
                )
        self.assertEqual(seen, [(n, 3, [n - 1.0] * 8) for n in (1, 2, 3)])
        self.assertEqual(client.why, "the task is over")

    def test_round(self) -> None:
        with sefl.Client(CONFIG, settings={"rounds": 1}) as client:
            (r,) = (r for r in client)
        self.assertEqual(
            r.tensors,
            (
                sefl.Tensor("fc.weight", (2, 3), 0, 6, True),
                sefl.Tensor("fc.bias", (1,), 6, 1, True),
                sefl.Tensor("scale", (), 7, 1, False),
            ),
        )
        self.assertEqual((r.task, r.vocabulary, r.seconds_left), ("a task", None, 2.5))
        self.assertEqual((r.weight_cap, r.claims_privacy), (100, True))
        r.values[5], r.values[7] = 2, 3
        self.assertEqual(r["fc.weight"].tolist(), [[0, 0, 0], [0, 0, 2]])
        self.assertEqual(r["scale"].shape, ())
        self.assertEqual(r["scale"][()], 3)
        r["fc.bias"][0] = 9
        self.assertEqual(r.values[6], 9)  # after close: the values belong to Python
        with self.assertRaises(KeyError):
            r["other"]

    def test_earlier_values_stay(self) -> None:
        with sefl.Client(CONFIG) as client:
            first = client.wait()
            first.submit(array.array("f", [5] * 8))
            second = client.wait()
            self.assertEqual((first.values[0], second.values[0]), (0, 5))

    def test_late_round(self) -> None:
        with sefl.Client(CONFIG, settings={"late": 2}) as client:
            self.assertEqual([r.submit() is None for r in client], [False, True, False])

    def test_old_round(self) -> None:
        with sefl.Client(CONFIG) as client:
            old = client.wait()
            self.assertTrue(old.wanted)
            new = client.wait()
            self.assertFalse(old.wanted)
            self.assertIsNone(old.submit())
            self.assertTrue(new.wanted)
            new.skip()
            self.assertFalse(new.wanted)

    def test_timeout(self) -> None:
        with sefl.Client(CONFIG, settings={"block": "wait"}) as client:
            with self.assertRaises(TimeoutError):
                client.wait(0.01)


class Submit(unittest.TestCase):
    def setUp(self) -> None:
        self.client = sefl.Client(CONFIG)
        self.addCleanup(self.client.close)
        self.round = self.client.wait()

    def next_values(self) -> list[float]:
        return list(self.client.wait().values)

    def test_read_only_buffer(self) -> None:
        self.round.submit(memoryview(array.array("f", range(8))).toreadonly())
        self.assertEqual(self.next_values(), list(range(8)))

    def test_named(self) -> None:
        weight = memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3))
        self.round.submit({"fc.bias": array.array("f", [7]), "fc.weight": weight})
        self.assertEqual(self.next_values(), [0, 1, 2, 3, 4, 5, 7, 0])

    def test_named_flat(self) -> None:
        tensors = {"fc.bias": array.array("f", [7]), "fc.weight": array.array("f", range(6)),
                   "scale": array.array("f", [8])}
        self.round.submit(tensors)
        self.assertEqual(self.next_values(), [0, 1, 2, 3, 4, 5, 7, 8])

    def test_refused_then_right(self) -> None:
        bias, weight = array.array("f", [7]), array.array("f", range(6))
        for wrong, text in (
            ({"fc.weight": weight}, "missing"),
            ({"fc.weight": weight, "other": bias}, "unknown"),
            ({"fc.weight": bias, "fc.bias": bias}, "shape"),
            (array.array("f", [0] * 7), "8 values"),
        ):
            with self.assertRaisesRegex(sefl.InvalidError, text):
                self.round.submit(wrong)
        self.assertIsNotNone(self.round.submit())

    def test_wrong_types(self) -> None:
        for wrong, text in (
            (array.array("d", [0] * 8), "float32"),
            (array.array("i", [0] * 8), "float32"),
            ([0.0] * 8, "list has no buffer"),
            (memoryview(array.array("f", [0] * 16))[::2], "contiguous"),
            ({"fc.bias": b"1234"}, "fc.bias"),
            ({"fc.bias": memoryview(bytes(4)).cast("f", (1,) * 5)}, "5 dimensions"),
            ({7: array.array("f", [0])}, "7, not a string"),
        ):
            with self.assertRaisesRegex(TypeError, text):
                self.round.submit(wrong)
        for weight in (-1, 1 << 64):
            with self.assertRaisesRegex(ValueError, f"weight is {weight}"):
                self.round.submit(weight=weight)
        with self.assertRaises(TypeError):
            self.round.submit(weight=1.5)

    def test_weight_is_any_integer(self) -> None:
        class Seven:  # as numpy.int64
            def __index__(self) -> int:
                return 7

        self.assertIsNotNone(self.round.submit(weight=Seven()))

    def test_buffer_is_released(self) -> None:
        mine = array.array("f", [0] * 8)
        self.round.submit(mine)
        mine.append(1)  # BufferError while it is locked


class Ends(unittest.TestCase):
    def test_errors(self) -> None:
        for code, kind in (("EBUDGET", sefl.BudgetError), ("EAUTH", sefl.RefusedError),
                           ("EPROTO", sefl.ProtocolError), ("EUNSUPPORTED", sefl.UnsupportedError),
                           ("EINVAL", ValueError), ("EIO", sefl.SeflError)):
            status = sefl.Status[code]
            with sefl.Client(CONFIG, settings={"fail": int(status)}) as client:
                with self.assertRaises(kind) as caught:
                    client.wait()
            self.assertEqual(str(caught.exception), "the sentence of the library")
            self.assertEqual(caught.exception.status, status)

    def test_no_file(self) -> None:
        with self.assertRaisesRegex(sefl.SeflError, "nowhere.yml: no such file") as caught:
            sefl.Client("nowhere.yml")
        self.assertEqual(caught.exception.status, sefl.Status.ENOTFOUND)

    def test_error_on_other_thread(self) -> None:
        texts = []

        def use() -> None:
            with sefl.Client(CONFIG, settings={"fail": 4}) as client:
                try:
                    client.wait()
                except sefl.ProtocolError as why:
                    texts.append(str(why))

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        self.assertEqual(texts, ["the sentence of the library"])

    def test_stop(self) -> None:
        for where in ("wait", "submit"):
            with sefl.Client(CONFIG, settings={"block": where}) as client:
                timer = threading.Timer(0.05, client.stop)
                timer.start()
                self.assertEqual([r.submit() for r in client], [] if where == "wait" else [None])
                self.assertEqual(client.why, "stopped on request")
                timer.join()

    def test_interrupt(self) -> None:
        for where in ("wait", "submit"):
            with sefl.Client(CONFIG, settings={"block": where}) as client:
                threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
                began = time.monotonic()
                with self.assertRaises(KeyboardInterrupt):
                    for r in client:
                        r.submit()
                self.assertLess(time.monotonic() - began, 5)

    def test_run(self) -> None:
        with sefl.Client(CONFIG) as client:
            threading.Timer(0.05, client.stop).start()
            client.run()

    def test_closed(self) -> None:
        client = sefl.Client(CONFIG)
        r = client.wait()
        client.close()
        client.close()
        client.stop()
        for call in (r.skip, client.wait, client.reload, lambda: r.wanted):
            with self.assertRaisesRegex(ValueError, "closed"):
                call()
        with self.assertRaises(ValueError):
            r.submit()

    def test_forgotten(self) -> None:
        done = run_python(
            f"import sefl; c = sefl.Client({CONFIG!r}); c.wait(); print('end')",
            SEFL_LIBRARY=str(standin()),
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "end\n", "slow\n"))

    def test_fork(self) -> None:
        client = sefl.Client(CONFIG)
        self.addCleanup(client.close)
        child = os.fork()
        if child == 0:
            client._finalizer()  # does not touch the parent's threads
            del client
            gc.collect()
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertIsNotNone(client.wait())


class Callbacks(unittest.TestCase):
    def test_log_and_progress(self) -> None:
        events, steps = [], []
        with sefl.Client(
            CONFIG, log=lambda level, event: events.append((level, event["event"])),
            progress=steps.append,
        ) as client:
            client.wait()
        self.assertEqual(events, [(logging.INFO, "round opens"), (logging.WARNING, "slow")])
        self.assertEqual(steps, [sefl.Progress("training", 0, 3, 1, 2, 3, 4.5, True)])

    def test_logger(self) -> None:
        with self.assertLogs("sefl", "INFO") as logs, sefl.Client(CONFIG) as client:
            client.wait()
        self.assertEqual(logs.output, ["INFO:sefl:round opens round=1", "WARNING:sefl:slow"])

    def test_exception(self) -> None:
        def wrong(_progress: sefl.Progress) -> None:
            raise RuntimeError("mine")

        with sefl.Client(CONFIG, progress=wrong) as client:
            with self.assertRaisesRegex(RuntimeError, "mine"):
                client.wait()
        with sefl.Client(CONFIG, settings={"bad": 1}) as client:
            with self.assertRaises(ValueError):
                client.wait()


class Servers(unittest.TestCase):
    def test_aggregator(self) -> None:
        results = []
        with sefl.Aggregator(CONFIG, on_round=results.append) as server:
            self.assertEqual(server.port, 4711)
            threading.Timer(0.05, server.stop).start()
            server.run()
        self.assertEqual(
            results,
            [sefl.RoundResult(1, 3, False, False, 4, 2.5, 2, None, 0.5),
             sefl.RoundResult(2, 3, True, False, None, None, None, None, 1.5)],
        )

    def test_interrupt(self) -> None:
        with sefl.Aggregator(CONFIG) as server:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
            with self.assertRaises(KeyboardInterrupt):
                server.run()


class Privacy(unittest.TestCase):
    plan = {"values": 10, "rounds": 4, "delta": 1e-6}

    def test_plan(self) -> None:
        claim = sefl.privacy.plan(**self.plan, z=3, rate=0.5, noise="own")
        self.assertEqual((claim.claimed, claim.epsilon_server, claim.epsilon_others), (True, 3, 4))
        self.assertIsNone(claim.noise_over_signal)
        self.assertIsNone(claim.why_not)
        self.assertEqual(sefl.privacy.plan(**self.plan, z=3, clients=9).noise_over_signal, 0.5)
        self.assertEqual(sefl.privacy.epsilon(**self.plan, z=9), 1)
        self.assertEqual(sefl.privacy.noise(**self.plan, epsilon=3), 3)

    def test_wrong(self) -> None:
        with self.assertRaisesRegex(ValueError, "either"):
            sefl.privacy.plan(**self.plan)
        with self.assertRaisesRegex(ValueError, "joint or own"):
            sefl.privacy.plan(**self.plan, z=1, noise="loud")
        with self.assertRaisesRegex(sefl.InvalidError, "delta"):
            sefl.privacy.plan(values=1, rounds=1, delta=0, z=1)

    def test_ledger(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            found = sefl.privacy.ledger(folder, 0.5)
            self.assertEqual((found.tasks, found.rounds, found.claimed, found.delta), (1, 2, False, 0.5))
            self.assertEqual(found.unit, "record")
            self.assertEqual(found.why_not, f"no claim in {folder}")


class Library(unittest.TestCase):
    def test_version(self) -> None:
        self.assertEqual(sefl.library_version(), STANDIN_VERSION)
        done = run_python("import sefl; sefl.library_version()", SEFL_LIBRARY=str(standin("99.0.0")))
        self.assertIn(f"has version 99.0.0, but this package needs {VERSION}", done.stderr)

    def test_not_found(self) -> None:
        done = run_python("import sefl; sefl.library_version()", SEFL_LIBRARY="/nowhere/lib.so")
        self.assertIn("LibraryError: libsefl was not found", done.stderr)
        done = run_python("import sefl; sefl.library_version()", SEFL_LIBRARY="libm.so.6")
        self.assertIn("libm.so.6 is not a library of SEFL", done.stderr)

    def test_system(self) -> None:
        folder = standin().parent / "system"
        folder.mkdir()
        (folder / "libsefl.so.0").symlink_to(standin())
        code = "import sefl; print(sefl.library_version())"
        done = run_python(code, SEFL_LIBRARY="", LD_LIBRARY_PATH=str(folder))
        self.assertEqual(done.stdout, f"{STANDIN_VERSION}\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
