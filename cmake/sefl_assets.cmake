# sefl_assets(LAYER): puts the files of the layer's folder web into the layer, as the table of LAYER/assets.h.
# This file is also the script that writes the table: cmake -DOUT=file.c -DFILES="a;b" -P this.
#
# The build runs the script again when one of the files changes. It needs CMake alone, and the same
# files give the same bytes.
if(CMAKE_SCRIPT_MODE_FILE)
    set(type_html "text/html; charset=utf-8")
    set(type_css "text/css; charset=utf-8")
    set(type_js "text/javascript; charset=utf-8")
    set(type_svg "image/svg+xml")
    set(arrays "")
    set(table "")
    foreach(file ${FILES})
        get_filename_component(name ${file} NAME)
        string(REGEX REPLACE ".*\\." "" ending ${name})
        string(MAKE_C_IDENTIFIER ${name} id)
        if(NOT DEFINED type_${ending})
            message(FATAL_ERROR "assets: ${name} has no content type (see cmake/sefl_assets.cmake)")
        endif()
        file(READ ${file} hex HEX)
        string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
        string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
        string(APPEND arrays "static const unsigned char ${id}[] = {\n${hex}};\n")
        set(path /${name})
        if(name STREQUAL "page.html")
            set(path /)
        endif()
        string(APPEND table "    {\"${path}\", \"${type_${ending}}\", ${id}, sizeof ${id}},\n")
    endforeach()
    file(WRITE ${OUT} "#include \"page/assets.h\"\n${arrays}const page_asset page_assets[] = {\n${table}};\n"
        "const size_t page_assets_n = sizeof page_assets / sizeof page_assets[0];\n")
    return()
endif()

set(SEFL_ASSETS_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(sefl_assets layer)
    get_property(path GLOBAL PROPERTY SEFL_LAYER_PATH_${layer})
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${path}/web/*.*)
    set(out ${CMAKE_BINARY_DIR}/generated/${layer}_assets.c)
    add_custom_command(OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DOUT=${out} "-DFILES=${files}" -P ${SEFL_ASSETS_SCRIPT}
        DEPENDS ${files} ${SEFL_ASSETS_SCRIPT} COMMENT "Writing ${layer}_assets.c" VERBATIM)
    target_sources(sefl_${layer} PRIVATE ${out})
endfunction()
