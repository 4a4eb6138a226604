#!/usr/bin/env python3
"""Known answers of protocol/head, protocol/counted and protocol/voucher, from their definitions.

    tests/vectors/core/protocol/make_sealed.py > tests/vectors/core/protocol/sealed.h

Needs the package "cryptography" (made with 48.0.0), for AES-CTR, X25519, HKDF, ChaCha20-Poly1305 and
signatures; HPKE (RFC 9180), the tree and the layouts are written out here. Nothing is shared with the C
code. Vouchers signed with ECDSA and RSA-PSS differ from run to run."""
import hashlib
import hmac
import struct
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

RAW = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)
SPKI = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def u16(x):
    return struct.pack("<H", x)


def u32(x):
    return struct.pack("<I", x)


def u64(x):
    return struct.pack("<Q", x)


def show(name, data):
    print(f"static const char {name}[] =")
    text = data.hex()
    lines = [text[i : i + 88] for i in range(0, len(text), 88)]
    print("\n".join(f'    "{line}"' for line in lines) + ";")


# ---- counted ----------------------------------------------------------------------------------

TASK, SEED = bytes([0x11] * 32), bytes(range(32))


def prg(seed, name, n):
    key = sha(b"sefl prg 1", seed, name.encode())[:16]
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(n))


def tree(task, round_, seed, clients_max, leaves):
    places = 1
    while places < clients_max:
        places *= 2
    coins = prg(seed, "counted places", 8 * len(leaves))
    place = list(range(places))
    level = [prg(seed, "counted fillers", 32 * places)[32 * k : 32 * k + 32] for k in range(places)]
    for i, (client, units) in enumerate(leaves):
        x = struct.unpack("<Q", coins[8 * i : 8 * i + 8])[0]
        j = i + (x * (places - i) >> 64)
        place[i], place[j] = place[j], place[i]
        level[place[i]] = sha(b"\0sefl leaf 1", task, u64(round_), client, units)
    paths = [b""] * len(leaves)
    at = place[: len(leaves)]
    while len(level) > 1:
        for i, k in enumerate(at):
            paths[i] += level[k ^ 1]
        at = [k >> 1 for k in at]
        level = [sha(b"\1", level[2 * k], level[2 * k + 1]) for k in range(len(level) // 2)]
    return level[0], [p + u32(place[i]) for i, p in enumerate(paths)]


def some_leaves(n):  # client i is 32 bytes of big-endian i + 1, its units SHA-256 of that
    clients = [(i + 1).to_bytes(32, "big") for i in range(n)]
    return [(c, sha(c)) for c in clients]


print("/* Made by make_sealed.py. */")
print("static const struct {\n    uint32_t clients_max, n;\n    const char *root;")
print("    const char *paths; /* SHA-256 over all of them */\n} counted_known[] = {")
for most, n in [(1, 1), (2, 1), (2, 2), (3, 2), (7, 5), (8, 8), (9, 3), (1000, 700), (1000, 1)]:
    root, paths = tree(TASK, 7, SEED, most, some_leaves(n))
    print(f'    {{ {most}, {n},\n      "{root.hex()}",\n      "{sha(*paths).hex()}" }},')
print("};")

# ---- head, x25519 -----------------------------------------------------------------------------


def extract(salt, ikm):
    return hmac.new(salt or bytes(32), ikm, "sha256").digest()


def expand(prk, info, n):
    out, t, i = b"", b"", 1
    while len(out) < n:
        t = hmac.new(prk, t + info + bytes([i]), "sha256").digest()
        out, i = out + t, i + 1
    return out[:n]


def labeled_extract(suite, salt, label, ikm):
    return extract(salt, b"HPKE-v1" + suite + label + ikm)


def labeled_expand(suite, prk, label, info, n):
    return expand(prk, struct.pack(">H", n) + b"HPKE-v1" + suite + label + info, n)


def hpke_seal(eph, pub, info, ad, text):
    enc = eph.public_key().public_bytes(*RAW)
    kem = b"KEM" + struct.pack(">H", 0x20)
    dh = eph.exchange(X25519PublicKey.from_public_bytes(pub))
    prk = labeled_extract(kem, b"", b"eae_prk", dh)
    shared = labeled_expand(kem, prk, b"shared_secret", enc + pub, 32)
    suite = b"HPKE" + struct.pack(">HHH", 0x20, 1, 3)
    context = b"\0" + labeled_extract(suite, b"", b"psk_id_hash", b"")
    context += labeled_extract(suite, b"", b"info_hash", info)
    secret = labeled_extract(suite, shared, b"secret", b"")
    key = labeled_expand(suite, secret, b"key", context, 32)
    nonce = labeled_expand(suite, secret, b"base_nonce", context, 12)
    return enc, ChaCha20Poly1305(key).encrypt(nonce, text, ad)


# RFC 9180, 7.1.3: the key of a seed
CSP_SEED, ROUND = bytes([0x42] * 32), 9
kem = b"KEM" + struct.pack(">H", 0x20)
csp = X25519PrivateKey.from_private_bytes(
    labeled_expand(kem, labeled_extract(kem, b"", b"dkp_prk", CSP_SEED), b"sk", b"", 32)
)
eph = X25519PrivateKey.from_private_bytes(bytes([0x33] * 32))
upload = ed25519.Ed25519PrivateKey.from_private_bytes(bytes([0x55] * 32))
client, units, seed = bytes([0xC1] * 32), bytes([0xB3] * 32), bytes(range(100, 132))
enc, sealed = hpke_seal(eph, csp.public_key().public_bytes(*RAW),
                        b"sefl head 2" + TASK + u64(ROUND), client + units, seed)
head = b"SFH2" + u16(0x20) + u16(0) + client + units + enc + sealed
head += upload.sign(b"sefl upload 1\n" + TASK + u64(ROUND) + head)
print("\n/* Task 0x11..., round 9, x25519: CSP's key from the seed 0x42..., upload key from 0x55... */")
show("head_known", head)
show("head_known_seed", seed)

# ---- vouchers ---------------------------------------------------------------------------------


def voucher(spki, sign, chain=b"", serial=5):
    v = b"SFV1" + sha(spki) + upload.public_key().public_bytes(*RAW)
    v += bytes([0xA5] * 32) + bytes([0xC5] * 32) + u64(serial) + u16(len(spki)) + spki
    sig = sign(b"sefl voucher 1\n" + v)
    return v + u16(len(sig)) + sig + u32(len(chain)) + chain


print("\n/* For AS 0xa5..., CSP 0xc5..., serial 5, the upload key above: one of each kind of key. */")
ed = ed25519.Ed25519PrivateKey.from_private_bytes(bytes([0x77] * 32))
show("voucher_ed25519", voucher(ed.public_key().public_bytes(*SPKI), ed.sign, b"chain"))
p256 = ec.derive_private_key(0x1234567890ABCDEF, ec.SECP256R1())
show("voucher_p256", voucher(p256.public_key().public_bytes(*SPKI),
                             lambda m: p256.sign(m, ec.ECDSA(hashes.SHA256()))))
p384 = ec.derive_private_key(0x1234567890ABCDEF, ec.SECP384R1())
show("voucher_p384", voucher(p384.public_key().public_bytes(*SPKI),
                             lambda m: p384.sign(m, ec.ECDSA(hashes.SHA256()))))
strong = rsa.generate_private_key(65537, 2048)
show("voucher_rsa", voucher(strong.public_key().public_bytes(*SPKI),
                            lambda m: strong.sign(m, padding.PKCS1v15(), hashes.SHA256())))
print("\n/* Good signatures by keys that are too weak, and one with SHA-1. */")
weak = rsa.generate_private_key(65537, 1024)
show("voucher_rsa_1024", voucher(weak.public_key().public_bytes(*SPKI),
                                 lambda m: weak.sign(m, padding.PKCS1v15(), hashes.SHA256())))
p192 = ec.derive_private_key(0x1234567890ABCDEF, ec.SECP192R1())
show("voucher_p192", voucher(p192.public_key().public_bytes(*SPKI),
                             lambda m: p192.sign(m, ec.ECDSA(hashes.SHA256()))))
show("voucher_sha1", voucher(strong.public_key().public_bytes(*SPKI),
                             lambda m: strong.sign(m, padding.PKCS1v15(), hashes.SHA1())))
