// The second entry file of a component: memory for results of the host. The heap is not garbage-collected: nothing in it
// moves or is freed while a call waits.
export function cabi_realloc(old: usize, oldSize: usize, align: usize, size: usize): usize {
  if (size == 0) return align;
  return old == 0 ? heap.alloc(size) : heap.realloc(old, size);
}
