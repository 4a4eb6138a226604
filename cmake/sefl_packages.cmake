# Libraries from outside, found once. SEFL_CORE_ONLY uses none of these.
if(NOT SEFL_CORE_ONLY)
    find_package(PkgConfig REQUIRED)
    pkg_check_modules(gmp REQUIRED IMPORTED_TARGET gmp)
    pkg_check_modules(libcrypto REQUIRED IMPORTED_TARGET libcrypto)
    pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
endif()
