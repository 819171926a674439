//! Extending a program that another crate defines: find its threads and operations by name, with
//! checked types.
//!
//! The module `library` does not depend on the rest of this file; it could be another crate.

use library::{Book, Title};
use pario_examples::Options;
use pario_flow::Program;

/// A library, as in another crate.
mod library {
    use std::collections::BTreeMap;

    use pario_flow::Program;
    use serde::{Deserialize, Serialize};

    pub type Title = String;

    #[derive(Serialize, Deserialize)]
    pub struct Book {
        pub title: Title,
        pub pages: u32,
    }

    pub struct Shelf {
        pub books: BTreeMap<Title, u32>,
    }

    impl Shelf {
        fn fetch(&mut self, title: Title) -> Result<Book, String> {
            let pages = self.books.get(&title).ok_or_else(|| format!("there is no {title}"))?;
            Ok(Book { pages: *pages, title })
        }
    }

    /// Adds the threads and operations of a library to a program.
    pub fn add_to(program: &mut Program) {
        let mut library = program.scope("Library");
        let shelf = library.thread("Shelf", || {
            let books = [("Emma", 474), ("Ulysses", 730), ("Candide", 129)];
            Shelf { books: books.map(|(title, pages)| (title.to_owned(), pages)).into() }
        });
        library.operation("fetch", |b| b.on(shelf).try_run(Shelf::fetch));
    }
}

struct Reader {
    pages_per_day: u32,
}

impl Reader {
    fn plan(&mut self, book: Book) -> String {
        let days = book.pages.div_ceil(self.pages_per_day);
        format!("{} has {} pages: {days} days", book.title, book.pages)
    }
}

fn titles(shelf: &mut library::Shelf, _: ()) -> Vec<Title> {
    shelf.books.keys().cloned().collect()
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse("extend", "Uses and extends a program that is defined elsewhere");
    let mut program = Program::new("reading room");
    library::add_to(&mut program);

    // A new operation that uses an operation of the library.
    let fetch = program.find_operation::<Title, Book>("Library.fetch")?;
    let reader = program.thread("Reader", || Reader { pages_per_day: 50 });
    let plan = program.operation("plan", |b| b.call(fetch).on(reader).run(Reader::plan));

    // A new operation on a thread of the library.
    let shelf = program.find_thread::<library::Shelf>("Library.Shelf")?;
    let catalogue = program.operation("catalogue", |b| b.on(shelf).run(titles));

    // A wrong name or type is an error before the program starts.
    let mistakes = [
        program.find_operation::<Title, Book>("Library.lend").err(),
        program.find_operation::<Title, String>("Library.fetch").err(),
    ];

    let run = options.launch(program)?;
    options.draw(&[run.graph(plan), run.graph(catalogue)])?;
    for title in run.call(catalogue, ())? {
        println!("{}", run.call(plan, title)?);
    }
    if let Err(error) = run.call(plan, "Faust".into()) {
        println!("error: {error}");
    }
    for error in mistakes.iter().flatten() {
        println!("error: {error}");
    }
    Ok(())
}
