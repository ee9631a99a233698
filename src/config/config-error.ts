/** The host's configuration cannot be used. The message names the file or variable, the field, and what to do. */
export class HostConfigError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'HostConfigError';
  }
}
