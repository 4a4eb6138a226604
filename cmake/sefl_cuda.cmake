# libsefl_cuda.so: the GPU plugin of model/engine/engine.h, built from src/learn/cuda if nvcc is
# installed. The file is next to the program and does not link against it. scripts/build-cuda does the
# same without CMake. SEFL_CUDA=OFF leaves it out.
option(SEFL_CUDA "Build the GPU plugin if nvcc is installed" ON)
set(SEFL_CUDA_ARCH "-gencode arch=compute_90,code=sm_90 -gencode arch=compute_80,code=compute_80"
    CACHE STRING "nvcc's -gencode flags")
file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/learn/cuda/*.cu)
file(GLOB cuda_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/learn/cuda/*.cuh)
find_program(SEFL_NVCC nvcc PATHS /usr/local/cuda/bin)

if(NOT SEFL_CUDA OR SEFL_SANITIZE OR SEFL_CTIME OR SEFL_FUZZ) # nothing of it would be checked there
    return()
elseif(NOT SEFL_NVCC)
    message(STATUS "GPU plugin: not built, nvcc is not installed")
    return()
elseif(NOT cuda_sources)
    message(STATUS "GPU plugin: not built, src/learn/cuda has no .cu files")
    return()
endif()
message(STATUS "GPU plugin: built with ${SEFL_NVCC}")

file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/roots/cuda/model)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/learn/cuda ${CMAKE_BINARY_DIR}/roots/cuda/model/cuda SYMBOLIC)
set(cuda_needs src/core/layout/kinds.h src/learn/nn/train_steps.h) # what engine_ops.h includes
foreach(header ${cuda_needs})
    get_filename_component(name ${header} NAME)
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${header} ${CMAKE_BINARY_DIR}/roots/cuda/model/${name} SYMBOLIC)
endforeach()
list(TRANSFORM cuda_needs PREPEND ${CMAKE_SOURCE_DIR}/)
separate_arguments(cuda_arch UNIX_COMMAND "${SEFL_CUDA_ARCH}")
set(cuda_objects "")
foreach(source ${cuda_sources})
    get_filename_component(stem ${source} NAME_WE)
    set(object ${CMAKE_BINARY_DIR}/cuda/${stem}.o)
    list(APPEND cuda_objects ${object})
    add_custom_command(OUTPUT ${object}
        COMMAND ${SEFL_NVCC} ${cuda_arch} -std=c++17 -O3 -I${CMAKE_SOURCE_DIR}/include
            -I${CMAKE_BINARY_DIR}/roots/engine -I${CMAKE_BINARY_DIR}/roots/cuda
            -Xcompiler -fPIC,-fvisibility=hidden -c ${source} -o ${object}
        DEPENDS ${source} ${cuda_headers} ${CMAKE_SOURCE_DIR}/src/learn/engine/engine_ops.h
            ${cuda_needs}
            ${CMAKE_SOURCE_DIR}/include/sefl/status.h
        COMMENT "Compiling ${stem}.cu" VERBATIM)
endforeach()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/cuda)
set(cuda_plugin ${CMAKE_BINARY_DIR}/libsefl_cuda.so)
add_custom_command(OUTPUT ${cuda_plugin}
    COMMAND ${SEFL_NVCC} ${cuda_arch} -shared -cudart static ${cuda_objects} -lcublas
        -Xlinker --version-script=${CMAKE_SOURCE_DIR}/cmake/sefl_cuda.map -o ${cuda_plugin}
    DEPENDS ${cuda_objects} ${CMAKE_SOURCE_DIR}/cmake/sefl_cuda.map COMMENT "Linking libsefl_cuda.so" VERBATIM)
add_custom_target(sefl_cuda ALL DEPENDS ${cuda_plugin})
install(PROGRAMS ${cuda_plugin} DESTINATION lib/sefl COMPONENT gpu)
