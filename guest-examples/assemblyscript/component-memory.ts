// The second entry file of a component: memory for what the host gives back. The heap is not the collector's: nothing in it
// moves or ends while a call waits.
export function cabi_realloc(old: usize, oldSize: usize, align: usize, size: usize): usize {
  if (size == 0) return align;
  return old == 0 ? heap.alloc(size) : heap.realloc(old, size);
}
