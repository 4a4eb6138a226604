# Libraries from outside, found once. SEFL_CORE_ONLY uses CBLAS alone.
find_path(cblas_include cblas.h PATH_SUFFIXES openblas openblas-pthread
    x86_64-linux-gnu/openblas-pthread REQUIRED)
find_library(cblas_library NAMES openblas cblas REQUIRED)
add_library(sefl_cblas INTERFACE)
target_include_directories(sefl_cblas SYSTEM INTERFACE ${cblas_include})
target_link_libraries(sefl_cblas INTERFACE ${cblas_library})

if(NOT SEFL_CORE_ONLY)
    find_package(PkgConfig REQUIRED)
    pkg_check_modules(gmp REQUIRED IMPORTED_TARGET gmp)
    pkg_check_modules(libcrypto REQUIRED IMPORTED_TARGET libcrypto)
    pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
endif()
