/* A tree of 32-byte nodes that is built by tern_store, for programs that promise the barrier. */
#ifndef TESTS_STORE_TREE_H
#define TESTS_STORE_TREE_H

#include "garbage.h"

struct node {
    struct node *left, *right;
    uint64_t value[2];
};

/* 2^(depth + 1) - 1 nodes. */
static NOINLINE struct node *tree(unsigned depth) {
    struct node *node = tern_alloc(sizeof *node);
    if (depth > 0) {
        tern_store(&node->left, tree(depth - 1));
        tern_store(&node->right, tree(depth - 1));
    }
    return node;
}

#endif
