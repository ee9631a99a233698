/** A module that cannot run here, in words for the person who gave it. */
export class ModuleError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ModuleError';
  }
}
