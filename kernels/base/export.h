#pragma once

/// Marks what liblockstep.so (a build with BUILD_SHARED_LIBS) gives to programs and plugins; all else is
/// compiled with hidden visibility.
#define LOCKSTEP_API [[gnu::visibility("default")]]
