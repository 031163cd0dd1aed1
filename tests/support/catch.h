#pragma once

// Catch2 2.13 (Debian 12) and 3 (Debian 13) differ in their headers alone as far as the tests are concerned.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
