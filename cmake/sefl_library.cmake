# libsefl: what `make install` gives other programs. Only the names of include/sefl are visible.
set(public_sources ${CMAKE_SOURCE_DIR}/src/api/api.c)
get_property(layers GLOBAL PROPERTY SEFL_LAYERS)
foreach(kind STATIC SHARED)
    string(TOLOWER ${kind} suffix)
    add_library(sefl_${suffix} ${kind} ${public_sources})
    set_target_properties(sefl_${suffix} PROPERTIES OUTPUT_NAME sefl
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
    target_sources(sefl_${suffix} PRIVATE $<TARGET_OBJECTS:sefl_base>)
    target_include_directories(sefl_${suffix} PRIVATE ${CMAKE_BINARY_DIR}/roots/base)
    target_include_directories(sefl_${suffix} PUBLIC ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(sefl_${suffix} PRIVATE sefl_flags)
endforeach()
