/** Bounds on what a component may be made of; anything a toolchain writes stays far below them. */

/** Components in components, and types in types. */
export const MAX_NESTING = 24;

/** Imports, exports, instances, types, aliases and so on, over all nested components and core modules. */
export const MAX_DEFINITIONS = 500_000;

export const MAX_NAME_BYTES = 1024;

/** Instantiated components; a component that instantiates others twice doubles their number. */
export const MAX_COMPONENT_INSTANCES = 256;

/** Instantiated core modules. */
export const MAX_CORE_INSTANCES = 256;

/** Definitions of components, counted once more for each time that their component is instantiated. */
export const MAX_LINKED_DEFINITIONS = 1_000_000;

/** What a whole component may import. */
export const MAX_IMPORTS = 256;

/** Parts of one type of `spear:host` when everything it names is written out. */
export const MAX_TYPE_PARTS = 200;

/** The types of one core module; they are looked at before the engine has its own say. */
export const MAX_TYPE_SECTION_BYTES = 1024 * 1024;

/** A shim or fixup module has a few bytes for each import. */
export const MAX_SHIM_BYTES = 256 * 1024;
