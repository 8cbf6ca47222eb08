# hadal_layer(<folder> [DEPS <targets>...] [SOURCES <extra>...] [EXCLUDE <regex>])
#
# One folder under src/ is one static library, hadal_<folder>. Every *.cc belongs to it, except
#   *_test.cc   -> one test executable, hadal_<folder>_test
#   *_fuzz.cc   -> one libFuzzer executable each (HADAL_FUZZ), and a test over its committed corpus
#   *_bench.cc  -> one Google Benchmark executable each (HADAL_BENCH)
add_library(hadal_flags INTERFACE)
target_include_directories(hadal_flags INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}/src")
# -ffp-contract=off: a sum must not depend on which loop the compiler chose to fuse.
target_compile_options(hadal_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                       -Wno-unused-parameter -Wno-missing-field-initializers -Werror=return-type -ffp-contract=off)
# GCC 12 sees uninitialised values in every std::optional<std::variant> and in its own AVX-512 header.
target_compile_options(hadal_flags INTERFACE
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized -Wno-maybe-uninitialized>)
if(HADAL_SANITIZE)
  # vptr: it asks for a file descriptor to see whether memory can be read, and takes a living object
  # for a dead one where a test has used up all descriptors.
  target_compile_options(hadal_flags INTERFACE -fsanitize=${HADAL_SANITIZE} -fno-sanitize=vptr
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(hadal_flags INTERFACE -fsanitize=${HADAL_SANITIZE})
endif()
if(HADAL_FUZZ)
  target_compile_options(hadal_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Tests are compiled more often than they run.
set(test_options $<$<CONFIG:Release>:-O1>)

# Everything that unit tests need, and nothing else.
add_custom_target(unit_tests)

# A machine without ccache builds a third faster when the large headers are read once. For every
# target but the kernels', whose files have a processor each; clang wants the same macros everywhere.
option(HADAL_PCH "precompile the standard headers (GCC)" OFF)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(HADAL_PCH OFF)
endif()
set(precompiled <nlohmann/json.hpp> <fmt/core.h> <algorithm> <chrono> <filesystem> <functional> <map> <memory>
    <optional> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>)
function(hadal_precompiled name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBRARIES;OPTIONS" ${ARGN})
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/${name}.cc" "")
  add_library(${name} OBJECT "${CMAKE_CURRENT_BINARY_DIR}/${name}.cc")
  target_link_libraries(${name} PRIVATE hadal_flags fmt::fmt ${ARG_LIBRARIES})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${precompiled} ${ARG_HEADERS})
endfunction()
function(hadal_precompile target name)
  if(HADAL_PCH AND NOT target STREQUAL "hadal_kernels")
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

function(hadal_layer folder)
  cmake_parse_arguments(ARG "" "EXCLUDE" "DEPS;SOURCES" ${ARGN})
  file(GLOB_RECURSE all CONFIGURE_DEPENDS "*.cc")
  if(ARG_EXCLUDE)
    list(FILTER all EXCLUDE REGEX "${ARG_EXCLUDE}")
  endif()
  set(tests ${all})
  set(fuzzers ${all})
  set(benches ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER all EXCLUDE REGEX "_(test|fuzz|bench)\\.cc$")
  if(all OR ARG_SOURCES)
    add_library(hadal_${folder} STATIC ${all} ${ARG_SOURCES})
    target_link_libraries(hadal_${folder} PUBLIC hadal_flags ${ARG_DEPS})
    hadal_precompile(hadal_${folder} hadal_precompiled)
  else()
    add_library(hadal_${folder} INTERFACE)
    target_link_libraries(hadal_${folder} INTERFACE hadal_flags ${ARG_DEPS})
  endif()

  if(HADAL_TESTS AND tests)
    add_executable(hadal_${folder}_test ${tests})
    target_link_libraries(hadal_${folder}_test PRIVATE hadal_${folder} GTest::gtest_main)
    target_compile_options(hadal_${folder}_test PRIVATE ${test_options})
    hadal_precompile(hadal_${folder}_test hadal_precompiled_test)
    add_dependencies(unit_tests hadal_${folder}_test)
    target_compile_definitions(hadal_${folder}_test PRIVATE
                               HADAL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    gtest_discover_tests(hadal_${folder}_test TEST_PREFIX "${folder}." DISCOVERY_TIMEOUT 60)
  endif()
  if(HADAL_TESTS)
    foreach(source ${fuzzers})
      get_filename_component(name ${source} NAME_WE)
      string(REGEX REPLACE "_fuzz$" "" subject ${name})
      add_executable(${subject}_corpus ${source} "${PROJECT_SOURCE_DIR}/tests/corpus_main.cc")
      target_link_libraries(${subject}_corpus PRIVATE hadal_${folder})
      add_dependencies(unit_tests ${subject}_corpus)
      add_test(NAME ${folder}.corpus.${subject}
               COMMAND ${subject}_corpus "${PROJECT_SOURCE_DIR}/tests/corpus/${subject}")
    endforeach()
  endif()
  if(HADAL_FUZZ)
    foreach(source ${fuzzers})
      get_filename_component(name ${source} NAME_WE)
      add_executable(${name} ${source})
      target_link_libraries(${name} PRIVATE hadal_${folder})
      target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
  if(HADAL_BENCH)
    foreach(source ${benches})
      get_filename_component(name ${source} NAME_WE)
      add_executable(${name} ${source})
      target_link_libraries(${name} PRIVATE hadal_${folder} benchmark::benchmark)
    endforeach()
  endif()
endfunction()
