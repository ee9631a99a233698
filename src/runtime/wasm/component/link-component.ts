import { ModuleError } from '../../abi/guest-module.ts';
import type { CanonOptions, ComponentBody, Definition, Reference } from './component-binary.ts';
import {
  MAX_COMPONENT_INSTANCES,
  MAX_CORE_INSTANCES,
  MAX_IMPORTS,
  MAX_LINKED_DEFINITIONS,
} from './component-reader.ts';
import type { CoreModuleShape } from './core-module-shape.ts';
import type { Alias, Sort } from './type-binary.ts';
import { type DeclaredItem, type DeclaredItems, type ScopedType, TypeScope } from './type-scope.ts';

/** Core module instance; one instance at run time. */
export interface CoreInstance {
  readonly kind: 'core-instance';
  readonly module: CoreModuleShape;
  readonly args: ReadonlyMap<string, CoreInstance | CoreExports>;
}

/** Core items grouped under names; has no runtime counterpart. */
export interface CoreExports {
  readonly kind: 'core-exports';
  readonly items: ReadonlyMap<string, CoreItem>;
}

export type CoreItem =
  | { readonly kind: 'of-instance'; readonly instance: CoreInstance; readonly sort: Sort; readonly name: string }
  | { readonly kind: 'lowered'; readonly func: Func; readonly options: LoweringOptions }
  | { readonly kind: 'builtin' };

export interface LoweringOptions extends Pick<CanonOptions, 'encoding' | 'async'> {
  readonly memory: CoreItem | undefined;
  readonly realloc: CoreItem | undefined;
}

/** A function of the host, with the interface it was imported from, or one of the component itself. */
export type Func =
  | { readonly kind: 'host'; readonly from: string; readonly name: string }
  | { readonly kind: 'own'; readonly type: ScopedType };

export type Instance =
  | { readonly kind: 'host'; readonly name: string; readonly items: DeclaredItems }
  | { readonly kind: 'own'; readonly items: ReadonlyMap<string, Item> };

export type Item =
  | { readonly sort: 'func'; readonly func: Func }
  | { readonly sort: 'instance'; readonly instance: Instance }
  | { readonly sort: 'component'; readonly component: Closure }
  | { readonly sort: 'module'; readonly module: CoreModuleShape }
  | { readonly sort: 'type'; readonly type: ScopedType };

interface Closure {
  readonly body: ComponentBody;
  /** Where it was defined; undefined for the whole component. */
  readonly scope: Scope | undefined;
}

/** Component with all references resolved to their definitions. */
export interface LinkedComponent {
  readonly imports: ReadonlyMap<string, DeclaredItem>;
  readonly exports: ReadonlyMap<string, Item>;
  readonly coreInstances: readonly CoreInstance[];
}

/**
 * Links a component statically: simulates its instantiation and resolves every import, export and alias to its
 * definition, without running code. The import check and the fast lane proof use the result.
 *
 * Precondition: component-binary.ts admitted the component. Budgets bound the number of instances, because a component
 * that instantiates others twice doubles their number. Types are compared by import-check.ts, not here.
 */
export function linkComponent(body: ComponentBody): LinkedComponent {
  const run = new Linking();
  const exports = run.instantiate({ body, scope: undefined }, undefined);
  return { imports: run.imports, exports, coreInstances: run.coreInstances };
}

class Scope {
  readonly outer: Scope | undefined;
  readonly types: TypeScope;
  readonly modules: CoreModuleShape[] = [];
  readonly coreInstances: (CoreInstance | CoreExports)[] = [];
  readonly core: Record<'core-func' | 'table' | 'memory' | 'global' | 'tag', CoreItem[]> = {
    'core-func': [],
    table: [],
    memory: [],
    global: [],
    tag: [],
  };
  readonly funcs: Func[] = [];
  readonly instances: Instance[] = [];
  readonly components: Closure[] = [];

  constructor(outer: Scope | undefined) {
    this.outer = outer;
    this.types = new TypeScope(outer?.types);
  }

  up(count: number): Scope {
    if (count === 0) return this;
    if (!this.outer) throw new ModuleError('malformed component: outer alias beyond the root component');
    return this.outer.up(count - 1);
  }

  item({ sort, index }: Reference): Item {
    if (sort === 'func') return { sort, func: at(this.funcs, index, sort) };
    if (sort === 'instance') return { sort, instance: at(this.instances, index, sort) };
    if (sort === 'component') return { sort, component: at(this.components, index, sort) };
    if (sort === 'module') return { sort, module: at(this.modules, index, sort) };
    if (sort === 'type') return { sort, type: this.types.type(index) };
    throw new ModuleError(`the component re-exports a ${sort}, which is not supported`);
  }

  add(item: Item): void {
    if (item.sort === 'func') this.funcs.push(item.func);
    else if (item.sort === 'instance') this.instances.push(item.instance);
    else if (item.sort === 'component') this.components.push(item.component);
    else if (item.sort === 'module') this.modules.push(item.module);
    else this.types.add(item.type);
  }
}

/** Arguments of a component instantiation; the host provides those of the outer component. */
type Args = ReadonlyMap<string, Item> | undefined;

class Linking {
  readonly imports = new Map<string, DeclaredItem>();
  readonly coreInstances: CoreInstance[] = [];
  #instantiated = 0;
  #linked = 0;

  instantiate({ body, scope: outer }: Closure, args: Args): ReadonlyMap<string, Item> {
    if (++this.#instantiated > MAX_COMPONENT_INSTANCES) {
      throw new ModuleError(`the component instantiates more than ${MAX_COMPONENT_INSTANCES} components`);
    }
    this.#linked += sizeOf(body);
    if (this.#linked > MAX_LINKED_DEFINITIONS) {
      throw new ModuleError(
        `the component instantiates components with more than ${MAX_LINKED_DEFINITIONS} definitions`,
      );
    }
    const scope = new Scope(outer);
    const exports = new Map<string, Item>();
    for (const definition of body.definitions) {
      if (definition.kind === 'import') this.#import(definition, scope, args);
      else if (definition.kind === 'export') {
        const item = scope.item(definition.item);
        exports.set(definition.name, item);
        scope.add(item);
      } else this.#define(definition, scope);
    }
    return exports;
  }

  #import({ name, type }: Extract<Definition, { kind: 'import' }>, scope: Scope, args: Args): void {
    if (args) {
      const given = args.get(name);
      if (!given) throw new ModuleError(`malformed component: an instantiation lacks the import ${name}`);
      // The argument may have less type information than the component declares.
      if (type.sort === 'type') scope.types.declare(type, name);
      else scope.add(given);
      return;
    }
    if (type.sort === 'module' || type.sort === 'component' || type.sort === 'value') {
      throw new ModuleError(
        `the component imports the ${type.sort} ${name}; only functions and interfaces can be imported`,
      );
    }
    const declared = scope.types.declare(type, name);
    this.imports.set(name, declared);
    if (this.imports.size > MAX_IMPORTS) throw new ModuleError(`the component has more than ${MAX_IMPORTS} imports`);
    if (declared.sort === 'func') scope.funcs.push({ kind: 'host', from: '', name });
    if (declared.sort === 'instance') scope.instances.push({ kind: 'host', name, items: declared.items });
  }

  #define(definition: Exclude<Definition, { kind: 'import' | 'export' }>, scope: Scope): void {
    switch (definition.kind) {
      case 'module':
        scope.modules.push(definition.module);
        return;
      case 'core-instantiate':
        scope.coreInstances.push(this.#coreInstance(definition, scope));
        return;
      case 'core-exports':
        scope.coreInstances.push({
          kind: 'core-exports',
          items: new Map(definition.exports.map(([name, { sort, index }]) => [name, coreItem(scope, sort, index)])),
        });
        return;
      case 'core-type':
        return;
      case 'component':
        scope.components.push({ body: definition.component, scope });
        return;
      case 'instantiate': {
        const args = new Map(definition.args.map(([name, item]) => [name, scope.item(item)]));
        const component = at(scope.components, definition.component, 'component');
        scope.instances.push({ kind: 'own', items: this.instantiate(component, args) });
        return;
      }
      case 'exports':
        scope.instances.push({
          kind: 'own',
          items: new Map(definition.exports.map(([name, item]) => [name, scope.item(item)])),
        });
        return;
      case 'alias':
        takeAlias(definition.alias, scope);
        return;
      case 'type':
        scope.types.define(definition.type);
        return;
      case 'canon':
        takeCanon(definition.canon, scope);
    }
  }

  #coreInstance({ module, args }: Extract<Definition, { kind: 'core-instantiate' }>, scope: Scope): CoreInstance {
    const instance: CoreInstance = {
      kind: 'core-instance',
      module: at(scope.modules, module, 'core module'),
      args: new Map(args.map(([name, index]) => [name, at(scope.coreInstances, index, 'core instance')])),
    };
    if (this.coreInstances.push(instance) > MAX_CORE_INSTANCES) {
      throw new ModuleError(`the component instantiates more than ${MAX_CORE_INSTANCES} core modules`);
    }
    return instance;
  }
}

/** Cost of instantiating a component, without nested instantiations. */
function sizeOf({ definitions }: ComponentBody): number {
  return definitions.reduce((sum, definition) => {
    if (definition.kind === 'core-instantiate' || definition.kind === 'instantiate')
      return sum + definition.args.length;
    if (definition.kind === 'core-exports' || definition.kind === 'exports') return sum + definition.exports.length;
    return sum + 1;
  }, 1);
}

function takeCanon(canon: Extract<Definition, { kind: 'canon' }>['canon'], scope: Scope): void {
  if (canon.form === 'lift') {
    scope.funcs.push({ kind: 'own', type: scope.types.type(canon.type) });
  } else if (canon.form === 'lower') {
    const { encoding, async, memory, realloc } = canon.options;
    scope.core['core-func'].push({
      kind: 'lowered',
      func: at(scope.funcs, canon.func, 'func'),
      options: {
        encoding,
        async,
        memory: memory === undefined ? undefined : coreItem(scope, 'memory', memory),
        realloc: realloc === undefined ? undefined : coreItem(scope, 'core-func', realloc),
      },
    });
  } else {
    scope.core['core-func'].push({ kind: 'builtin' });
  }
}

function takeAlias(alias: Alias, scope: Scope): void {
  if (alias.from === 'outer') {
    if (alias.sort === 'core-type') return;
    scope.add(scope.up(alias.count).item({ sort: alias.sort, index: alias.index }));
  } else if (alias.from === 'export') {
    scope.add(exported(at(scope.instances, alias.instance, 'instance'), alias));
  } else {
    const from = at(scope.coreInstances, alias.instance, 'core instance');
    coreSpace(scope, alias.sort).push(exportedCore(from, alias));
  }
}

function exported(instance: Instance, { sort, name }: { sort: Sort; name: string }): Item {
  if (instance.kind === 'own') {
    const item = instance.items.get(name);
    if (item?.sort === sort) return item;
  } else {
    const item = instance.items.get(name);
    if (item?.sort === 'func' && sort === 'func') return { sort, func: { kind: 'host', from: instance.name, name } };
    if (item?.sort === 'type' && sort === 'type') return { sort, type: item.type };
    if (item?.sort === 'instance' && sort === 'instance') {
      return { sort, instance: { kind: 'host', name: `${instance.name}/${name}`, items: item.items } };
    }
  }
  throw new ModuleError(`malformed component: alias of the ${sort} ${name}, which the instance does not export`);
}

function exportedCore(from: CoreInstance | CoreExports, { sort, name }: { sort: Sort; name: string }): CoreItem {
  if (from.kind === 'core-instance') return { kind: 'of-instance', instance: from, sort, name };
  const item = from.items.get(name);
  if (!item) throw new ModuleError(`malformed component: alias of ${name}, which the core instance does not export`);
  return item;
}

function coreSpace(scope: Scope, sort: Sort): CoreItem[] {
  if (!(sort in scope.core)) throw new ModuleError(`malformed component: alias of a ${sort} of a core instance`);
  return scope.core[sort as keyof Scope['core']];
}

function coreItem(scope: Scope, sort: Sort, index: number): CoreItem {
  return at(coreSpace(scope, sort), index, sort);
}

function at<T>(space: readonly T[], index: number, what: string): T {
  const found = space[index];
  if (found === undefined) throw new ModuleError(`malformed component: ${what} index ${index} is out of range`);
  return found;
}
