# sefl_layer(NAME [PATH dir] [AS dir] [DEPENDS layer...] [LIBS target...] [EXCLUDE dir...])
#
# One layer of the architecture: every .c file below src/SEFL_FLOOR/PATH (PATH is NAME unless given)
# except the folders in EXCLUDE, which are layers of their own. AS is its folder in #include lines
# (PATH unless given). The include path of a layer holds one root for itself and one for each layer
# in DEPENDS, and nothing is inherited: `#include "net/tls.h"` in a layer that does not list net is
# a file not found. sefl_check_layers() guards the link side.
set_property(GLOBAL PROPERTY SEFL_LAYERS "")

function(sefl_layer name)
    cmake_parse_arguments(L "" "PATH;AS" "DEPENDS;LIBS;EXCLUDE" ${ARGN})
    if(NOT L_PATH)
        set(L_PATH ${name})
    endif()
    if(NOT L_AS)
        set(L_AS ${L_PATH})
    endif()
    set(L_PATH ${SEFL_FLOOR}/${L_PATH})
    list(TRANSFORM L_EXCLUDE PREPEND ${SEFL_FLOOR}/)
    set(folder ${CMAKE_SOURCE_DIR}/src/${L_PATH})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.c)
    foreach(dir ${L_EXCLUDE})
        list(FILTER sources EXCLUDE REGEX "^${CMAKE_SOURCE_DIR}/src/${dir}/")
    endforeach()

    if(NOT sources)
        return() # the folder appears when it has content
    endif()

    # the layer's include root: a folder that holds links to what is in the layer's folder, but for EXCLUDE
    set(root ${CMAKE_BINARY_DIR}/roots/${name})
    file(REMOVE_RECURSE ${root})
    file(MAKE_DIRECTORY ${root}/${L_AS})
    file(GLOB links CONFIGURE_DEPENDS RELATIVE ${folder} ${folder}/*)
    foreach(link ${links})
        if(NOT "${L_PATH}/${link}" IN_LIST L_EXCLUDE)
            file(CREATE_LINK ${folder}/${link} ${root}/${L_AS}/${link} SYMBOLIC)
        endif()
    endforeach()

    add_library(sefl_${name} STATIC ${sources})
    target_link_libraries(sefl_${name} PRIVATE sefl_flags ${L_LIBS})
    target_include_directories(sefl_${name} PRIVATE ${CMAKE_SOURCE_DIR}/include ${root})
    foreach(dep ${L_DEPENDS})
        if(TARGET sefl_${dep}) # a layer without content yet is no target
            target_include_directories(sefl_${name} PRIVATE ${CMAKE_BINARY_DIR}/roots/${dep})
            target_link_libraries(sefl_${name} PRIVATE sefl_${dep})
        endif()
    endforeach()
    set_property(GLOBAL APPEND PROPERTY SEFL_LAYERS ${name})
    set_property(GLOBAL PROPERTY SEFL_LAYER_PATH_${name} ${L_PATH})
    set_property(GLOBAL PROPERTY SEFL_LAYER_DEPENDS_${name} ${L_DEPENDS})
    set_property(GLOBAL PROPERTY SEFL_LAYER_LIBS_${name} ${L_LIBS})
    set_property(GLOBAL PROPERTY SEFL_LAYER_EXCLUDE_${name} ${L_EXCLUDE})
endfunction()

# sefl_sees(TARGET layer...): lets a program or test include and link these layers.
function(sefl_sees target)
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(${target} PRIVATE sefl_flags)
    foreach(layer ${ARGN})
        if(TARGET sefl_${layer})
            get_property(libs GLOBAL PROPERTY SEFL_LAYER_LIBS_${layer})
            target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/roots/${layer})
            target_link_libraries(${target} PRIVATE sefl_${layer} ${libs})
        endif()
    endforeach()
endfunction()

# Part of every build: no layer's object code uses a symbol of a layer it does not list.
function(sefl_check_layers)
    get_property(layers GLOBAL PROPERTY SEFL_LAYERS)
    set(table "")
    foreach(layer ${layers})
        get_property(path GLOBAL PROPERTY SEFL_LAYER_PATH_${layer})
        get_filename_component(parent ${path} DIRECTORY)
        foreach(outer ${layers})
            get_property(outer_path GLOBAL PROPERTY SEFL_LAYER_PATH_${outer})
            get_property(exclude GLOBAL PROPERTY SEFL_LAYER_EXCLUDE_${outer})
            if(path MATCHES "^${outer_path}/" AND NOT (parent STREQUAL outer_path AND path IN_LIST exclude))
                message(FATAL_ERROR "layering: ${outer} must EXCLUDE ${path}, which must be directly below it")
            endif()
        endforeach()
        get_property(deps GLOBAL PROPERTY SEFL_LAYER_DEPENDS_${layer})
        string(JOIN " " deps ${deps})
        string(APPEND table "${layer} $<TARGET_FILE:sefl_${layer}> ${deps}\n")
    endforeach()
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/layers.txt CONTENT "${table}")
    list(TRANSFORM layers PREPEND sefl_ OUTPUT_VARIABLE targets)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/layers.ok
        COMMAND ${CMAKE_SOURCE_DIR}/scripts/check-layers ${CMAKE_BINARY_DIR}/layers.txt
        COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/layers.ok
        DEPENDS ${targets} ${CMAKE_SOURCE_DIR}/scripts/check-layers
        COMMENT "Checking that layers link only what they may see" VERBATIM)
    add_custom_target(layers ALL DEPENDS ${CMAKE_BINARY_DIR}/layers.ok)
endfunction()
