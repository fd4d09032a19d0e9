# Finds liburing (Debian: liburing-dev), which has no CMake package of its own.
find_path(LIBURING_INCLUDE_DIR liburing.h)
find_library(LIBURING_LIBRARY uring)
mark_as_advanced(LIBURING_INCLUDE_DIR LIBURING_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Liburing REQUIRED_VARS LIBURING_LIBRARY LIBURING_INCLUDE_DIR)
