# Compiler flags for every target, as one interface target.
add_library(sefl_flags INTERFACE)

target_compile_options(sefl_flags INTERFACE
    -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes
    -Wwrite-strings -Wundef -Wvla -Wcast-qual -Wimplicit-fallthrough -Wformat=2 
    -Wno-format-nonliteral -Wno-missing-field-initializers
    -ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -fno-common -fstack-protector-strong -fno-strict-aliasing -fvisibility=hidden)
if(SEFL_WERROR)
    target_compile_options(sefl_flags INTERFACE -Werror)
endif()
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT SEFL_SANITIZE)
    target_compile_definitions(sefl_flags INTERFACE _FORTIFY_SOURCE=2)
endif()
target_link_options(sefl_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
if(NOT SEFL_SANITIZE) # C needs no tables to unwind; debuggers have theirs in .debug_frame
    target_compile_options(sefl_flags INTERFACE -fno-asynchronous-unwind-tables)
endif()

target_compile_definitions(sefl_flags INTERFACE
    SEFL_FAULTS=$<BOOL:${SEFL_FAULTS}>
    SEFL_CTIME=$<BOOL:${SEFL_CTIME}>
    SEFL_CORE_ONLY=$<BOOL:${SEFL_CORE_ONLY}>)

if(SEFL_SANITIZE)
    target_compile_options(sefl_flags INTERFACE
        -fsanitize=${SEFL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(sefl_flags INTERFACE -fsanitize=${SEFL_SANITIZE})
endif()
if(SEFL_FUZZ)
    target_compile_options(sefl_flags INTERFACE -fsanitize=fuzzer-no-link
        -fsanitize-coverage-ignorelist=${CMAKE_SOURCE_DIR}/tests/fuzz/kernels.txt
        -fprofile-instr-generate -fcoverage-mapping) # scripts/fuzz prints the readers' coverage
    target_link_options(sefl_flags INTERFACE -fprofile-instr-generate)
endif()

find_package(Threads REQUIRED)
target_link_libraries(sefl_flags INTERFACE Threads::Threads m)

# build_info.h: the commit, brought up to date by every build
add_custom_target(sefl_build_info
    COMMAND ${CMAKE_SOURCE_DIR}/scripts/build-info ${CMAKE_BINARY_DIR}/generated/build_info.h
    BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/build_info.h VERBATIM)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
