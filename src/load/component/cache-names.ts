export const ENTRY_SUFFIX = '.component';
/** What is still being written; it has a name of its own until it is whole. */
export const UNFINISHED_SUFFIX = '.unfinished';
