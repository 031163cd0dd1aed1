#pragma once

namespace lockstep::tests {

/// How many times as long instrumented code may take: for the limits of what a test waits for.
#if defined(__SANITIZE_THREAD__)
inline constexpr double slowness = 8;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr double slowness = 3;
#else
inline constexpr double slowness = 1;
#endif

}  // namespace lockstep::tests
