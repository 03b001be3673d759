#include "gc/verify.h"
void verify_snapshot(void) {
}
void verify_marked(void) {
}
void verify_swept(void) {
}
