// Known answers of ML-KEM-768 from another implementation: the npm package @noble/post-quantum
// (made with 0.7.1). For 200 runs with coins from SHAKE-128("noble"): key, ciphertext, shared secret,
// and what a ciphertext with one changed bit gives, as one SHA-256.
//
//     npm install @noble/post-quantum && node make_seal.mjs
import { createHash } from 'node:crypto';
import { ml_kem768 } from '@noble/post-quantum/ml-kem.js';

const RUNS = 200;
const coins = createHash('shake128', { outputLength: RUNS * 96 }).update('noble').digest();
const all = createHash('sha256');
for (let i = 0; i < RUNS; i++) {
    const at = coins.subarray(i * 96, (i + 1) * 96);
    const { publicKey, secretKey } = ml_kem768.keygen(new Uint8Array(at.subarray(0, 64)));
    const { cipherText, sharedSecret } = ml_kem768.encapsulate(publicKey, new Uint8Array(at.subarray(64)));
    const changed = Uint8Array.from(cipherText);
    changed[(i * 37) % 1088] ^= 1 << i % 8;
    for (const b of [publicKey, cipherText, sharedSecret, ml_kem768.decapsulate(changed, secretKey)])
        all.update(b);
}
console.log(all.digest('hex'));
