// A shared object without the entry of a plugin.
extern "C" int answer() {
  return 42;
}
