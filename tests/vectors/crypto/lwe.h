/* Made by make_lwe.py with Python integers; do not edit. Units, sums and plain rows are given
 * by their first 16 bytes and SHA-256. Values: i-th of client j is
 * ((i*i*7919 + j*104729 + i) mod (2*max + 1)) - max. */
static const struct lwe_vector {
    unsigned w, kappa, d, clients;
    uint64_t unit;
    int64_t max;
    const char *unit_first, *unit_sha256, *sum_sha256, *plain_first, *plain_sha256;
} lwe_vectors[] = {
    { 28, 42, 4, 3, 0u, 44739242, "3b29858322981768593580a6f601153b",
      "395e030b175b859fdc3a5ee17fd4a26dff80cc57f37097a8f05fd3ce1dff2794",
      "b42f55a5714ac11e157c3d2a15a9e4d532f228bcbcfbe8b215e2f2de2c22b7f8",
      "2e9e8fce588c00b5a42105b85d1b5fac",
      "946591a96a654eaf8bf451b472533f0cc7eee3cadf2407b0a290e3b8189b956b" },
    { 28, 42, 4, 1, 461u, 134217727, "b9c4dfed38d3baa60d1bcbc9cf250de4",
      "c3c7a3d711577cc1e26fc091f70468e917a4a172687791d5b2ec91e5bde3dcc3",
      "3fed7bde1ac9586a5a7ffa05297142492ca4a62586b4a270182881e8164c3c93",
      "5253c4d7a32065a4677cc21ab353ac0b",
      "f65ae5e8871d420ad38b03ebf327f0fcacfbddf66f900db5870219ca77f71a75" },
    { 16, 31, 5, 2, 7u, 16383, "6f53af6b4fc080018da9f6898f165dcf",
      "62678ab9fab32436f124370d0f538746810f6908b3f2c885b37e95faeed2c239",
      "2b079885878bc353fab70c82e937a947b15f802aca12e511d8970f1b762ce3b6",
      "ea182eda8e36ff2dad61c2c84b1a7cb2",
      "ab2c4dc483125550fcb7b9b9074fe57f6a0596c1e6e1f20a0e8e7af325f9d50f" },
    { 40, 54, 4, 2, 1099511627776u, 274877906943, "eccbea83e11658b47208aec0e77265a6",
      "311e19344824868673aab883096295d9bc0f61ddf0cea3eb8bc01d0bc3ce003a",
      "5201b711d4429958f8c83c3589bb26a4674f9b915773f0796ad0fd098a74c80e",
      "95c3134a9ef800c70cb754eb237e82c4",
      "92ef2636cea49ac8077729ddfa5366e4105cd08b4894e3a37dfb64c95d15b363" },
};
