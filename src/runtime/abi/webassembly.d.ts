// The part of the WebAssembly JavaScript API that is used here, JSPI included. TypeScript has it only in its DOM
// library, which would declare a browser around everything else.
declare namespace WebAssembly {
  type ImportKind = 'function' | 'table' | 'memory' | 'global' | 'tag';
  interface ModuleImport {
    readonly module: string;
    readonly name: string;
    readonly kind: ImportKind;
  }
  interface ModuleExport {
    readonly name: string;
    readonly kind: ImportKind;
  }
  type ExportValue = GuestFunction | Memory | Table | Global;
  type GuestFunction = (...args: (number | bigint)[]) => number | bigint | undefined;
  type Imports = Record<string, Record<string, unknown>>;

  class Module {
    constructor(bytes: Uint8Array);
    static imports(module: Module): ModuleImport[];
    static exports(module: Module): ModuleExport[];
    static customSections(module: Module, name: string): ArrayBuffer[];
  }
  class Instance {
    constructor(module: Module, imports?: Imports);
    readonly exports: Readonly<Record<string, ExportValue>>;
  }
  class Memory {
    constructor(descriptor: { initial: number; maximum?: number; shared?: boolean });
    /** Shared if the memory is. */
    readonly buffer: ArrayBuffer;
    grow(pages: number): number;
  }
  class Table {
    constructor(descriptor: { element: 'anyfunc'; initial: number; maximum?: number });
    readonly length: number;
    get(index: number): GuestFunction | null;
    set(index: number, value: GuestFunction | null): void;
  }
  class Global {
    value: unknown;
  }
  class CompileError extends Error {}
  class LinkError extends Error {}
  class RuntimeError extends Error {}
  class SuspendError extends Error {}
  /** An import that may return a promise; the guest is suspended until it settles. */
  class Suspending {
    constructor(implementation: (...args: never[]) => unknown);
  }
  /** An export whose calls may be suspended; it gives a promise. */
  function promising(fn: GuestFunction): (...args: (number | bigint)[]) => Promise<number | bigint | undefined>;
  function compile(bytes: Uint8Array): Promise<Module>;
  function instantiate(module: Module, imports?: Imports): Promise<Instance>;
  function validate(bytes: Uint8Array): boolean;
}
