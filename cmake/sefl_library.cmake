# libsefl: what `make install` gives other programs. Only the names of include/sefl are visible, in
# the shared library as in the static one, whose objects are linked into one, with all other names
# local: a program may use the same names. tests/e2e/test_library.sh compares them with cmake/sefl.symbols.
set(public base privacy grid store api)
if(NOT SEFL_CORE_ONLY)
    list(APPEND public seeded config config_yaml crypto trust mpc_circuits mpc layout text nn engine report protocol
        sum_both sum_as sum_csp fed metrics db journal disk net page
        party_common party_as party_csp party_client api_roles)
    if(SEFL_PG)
        list(APPEND public pg)
    endif()
endif()
set(objects "")
set(archives "")
set(outside "")
foreach(layer ${public})
    list(APPEND objects $<TARGET_OBJECTS:sefl_${layer}>)
    list(APPEND archives $<TARGET_FILE:sefl_${layer}>)
    get_property(libs GLOBAL PROPERTY SEFL_LAYER_LIBS_${layer})
    list(APPEND outside ${libs})
endforeach()
list(REMOVE_DUPLICATES outside)

add_library(sefl_shared SHARED ${objects})
set_target_properties(sefl_shared PROPERTIES OUTPUT_NAME sefl LINKER_LANGUAGE C
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_link_libraries(sefl_shared PRIVATE sefl_flags ${outside})
if(NOT SEFL_SANITIZE) # a layer that the list lacks fails here, not where the library is loaded
    target_link_options(sefl_shared PRIVATE -Wl,-z,defs)
endif()

list(TRANSFORM public PREPEND sefl_ OUTPUT_VARIABLE layers)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/libsefl.a
    COMMAND ${CMAKE_LINKER} -r -o sefl.o --whole-archive ${archives}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden sefl.o
    COMMAND ${CMAKE_COMMAND} -E rm -f libsefl.a
    COMMAND ${CMAKE_AR} rcs libsefl.a sefl.o
    COMMAND ${CMAKE_COMMAND} -E rm -f sefl.o
    DEPENDS ${layers} WORKING_DIRECTORY ${CMAKE_BINARY_DIR} COMMENT "Linking libsefl.a" VERBATIM)
add_custom_target(sefl_static ALL DEPENDS ${CMAKE_BINARY_DIR}/libsefl.a)

# libsefl_client.a: only what a client needs. It exports the names of sefl/client.h, status.h and sefl.h.
# `make client-size` builds it for small devices (preset small) and prints its size.
if(NOT SEFL_CORE_ONLY)
    file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/sefl.symbols names REGEX "^sefl_(client|last|status|version)")
    list(TRANSFORM names PREPEND -u)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/sefl.symbols)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/libsefl_client.a
        COMMAND ${CMAKE_LINKER} -r --gc-sections -o sefl_client.o ${names} --start-group ${archives} --end-group
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden --strip-unneeded sefl_client.o
        COMMAND ${CMAKE_COMMAND} -E rm -f libsefl_client.a
        COMMAND ${CMAKE_AR} rcs libsefl_client.a sefl_client.o
        COMMAND ${CMAKE_COMMAND} -E rm -f sefl_client.o
        DEPENDS ${layers} WORKING_DIRECTORY ${CMAKE_BINARY_DIR} COMMENT "Linking libsefl_client.a" VERBATIM)
    add_custom_target(sefl_client DEPENDS ${CMAKE_BINARY_DIR}/libsefl_client.a)
endif()
